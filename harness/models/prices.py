"""What calls of models cost, and what they are estimated to need."""

from __future__ import annotations

from typing import Final

from harness.model.inference import Prompt, Usage
from harness.model.model_settings import ModelPrice, ModelSettings

_LETTERS_PER_TOKEN: Final = 4
_IMAGE_TOKENS: Final = 1500
"""The tokens of an image for which no provider has said how many it is."""
ANSWER_TOKENS: Final = 200
"""The tokens of an answer that has not begun: a call of one tool."""
_MILLION: Final = 1_000_000


def tokens_of(prompt: Prompt) -> int:
    """An estimate of a prompt's tokens, from its length."""
    tools = sum(len(tool.name) + len(tool.description) + len(str(tool.parameters)) for tool in prompt.tools)
    letters = len(prompt.instructions) + sum(map(len, prompt.parts)) + tools
    return tokens_of_letters(letters) + _IMAGE_TOKENS * len(prompt.images)


def tokens_of_letters(letters: int) -> int:
    return -(-letters // _LETTERS_PER_TOKEN)


def cost_of(usage: Usage, settings: ModelSettings) -> float | None:
    """US dollars; None if the price of the model is unknown. Nothing costs nothing, whatever the price."""
    if not usage.total:
        return 0.0
    if settings.price is not None:
        return _by_declared_price(usage, settings.price)
    return _by_list_price(usage, settings.model, settings.provider)


def is_priced(settings: ModelSettings) -> bool:
    """Return whether the price of a model is declared or known."""
    return cost_of(Usage(input=1, output=1), settings) is not None


def _by_declared_price(usage: Usage, price: ModelPrice) -> float:
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    plain = max(0, usage.input - usage.cache_read - usage.cache_write)
    parts = (plain, price.input), (usage.cache_read, read), (usage.cache_write, write), (usage.output, price.output)
    return sum(tokens * dollars for tokens, dollars in parts) / _MILLION


def _by_list_price(usage: Usage, model: str, provider: str) -> float | None:
    """By the list prices of genai-prices, which come with the package: nothing is fetched."""
    import genai_prices

    counted = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return float(
            genai_prices.calc_price(
                counted, model, provider_id=None if provider == "openai-compatible" else provider
            ).total_price
        )
    except LookupError:
        return None
