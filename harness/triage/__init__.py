"""What a run comes to for who has a minute: failures by cause, Markdown for a CI page, annotations."""
