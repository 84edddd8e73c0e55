#!/bin/bash
# sbatch slurm.sh: a suite in 20 parts. The disk that all machines share keeps the results.
#SBATCH --array=0-19
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60

store=$HOME/runs/run-$SLURM_ARRAY_JOB_ID
pytest tasks/ --task-shard env --task-durations durations.json --task-workers auto --task-store "$store" &
pytest=$!
trap 'kill -TERM $pytest' TERM # Slurm tells this script that the time is over
wait $pytest
status=$?
if [ $status -gt 128 ]; then # the signal has ended the first wait
  wait $pytest
  status=$?
fi
if [ $status -eq 75 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit $status
