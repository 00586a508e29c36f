"""A tiny policy built on the spot: a closed word-level vocabulary, a chat template, random weights.

It needs no hub and no download; it knows the words of one built-in environment, its lexicon, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast, StableLmConfig, StableLmForCausalLM, set_seed

from rollouts.environments.lexicon import FILLER, GOODS, KINDS, OBJECTS, OWNERS, PEOPLE, PLACES
from rollouts.environments.quest_lexicon import quest_words
from summarization.prompts import TINY
from summarization.resolve import UserError, closest

PAD, UNKNOWN, END = "<pad>", "<unk>", "<end>"
ROLES = ("<system>", "<user>", "<assistant>", "<tool>")
OWN_WORDS = "read and answer on : ; . ? none unknown where is who owns how much a letter letters came for many".split()

CHAT_TEMPLATE = """{%- for message in messages -%}
{{- '<' + message['role'] + '>' -}}
{%- if message['role'] == 'assistant' -%}
{% generation %}{{ message['content'] + '<end>' }}{% endgeneration %}
{%- else -%}
{{- message['content'] + '<end>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<assistant>' -}}{%- endif -%}"""


def recall_words() -> list[str]:
    """The closed vocabulary of ``recall``: every word once, in a fixed order."""
    templates = [TINY.request, TINY.state, TINY.carry, *(kind.tiny + " " + kind.question for kind in KINDS.values())]
    plain = [word for text in (*templates, *FILLER) for word in re.sub(r"\{\w+\}", " ", text).split()]
    numbers = [str(number) for number in range(100)]
    everything = [*OWN_WORDS, *plain, *numbers, *PEOPLE, *PLACES, *OBJECTS, *OWNERS, *GOODS]
    return list(dict.fromkeys(everything))


# Each environment's words are a vocabulary of their own: what is added to one changes no seeded result of another.
LEXICONS: dict[str, Callable[[], list[str]]] = {"recall": recall_words, "quest": quest_words}


def words(lexicon: str = "recall") -> list[str]:
    """The vocabulary: ``<unk>``, then every word of the lexicon.

    Raises:
        UserError: There is no such lexicon.
    """
    if lexicon not in LEXICONS:
        raise UserError(f"policy: the tiny policy has no lexicon '{lexicon}'; {closest(lexicon, list(LEXICONS))}")
    return [UNKNOWN, *LEXICONS[lexicon]()]


def tiny_tokenizer(lexicon: str = "recall") -> PreTrainedTokenizerFast:
    """One token a word of the lexicon; words outside it become ``<unk>``.

    Control tokens are no words of the vocabulary but are added to it, so that one spelled in a text stays unknown text.
    """
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words(lexicon))}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Split(Regex(r"\s+"), "removed")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=list(ROLES),
        clean_up_tokenization_spaces=False,
        model_max_length=1 << 20,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def tiny_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, hidden: int = 128, layers: int = 3, heads: int = 4
) -> StableLmForCausalLM:
    """A StableLM with random weights drawn from ``seed``, in fp32.

    Only a quarter of each head is rotated by position, so that the rest can match words at any distance: the copy
    circuit forms in 180 steps, where a Llama of the same size, rotated whole, takes 300.
    """
    set_seed(seed)
    return StableLmForCausalLM(
        StableLmConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.25},
            pad_token_id=tokenizer.get_vocab()[PAD],
            bos_token_id=None,
            eos_token_id=tokenizer.get_vocab()[END],
        )
    )
