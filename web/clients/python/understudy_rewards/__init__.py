"""Calibration rewards of Understudy, in the shapes that trainers call.

One module a trainer: ``verl``, ``trl``, ``openrlhf``, ``slime``, ``skyrl``,
``rllm``. All of them need the standard library alone and ask one service through
:class:`Client`. Rows of a data set carry the *place* of an output: a mapping (or
its JSON text) with ``environment``, ``start``, ``history`` and ``call``.
"""

from .client import Client, ServiceError, Score
from .place import output_of, score_texts, text_of

__all__ = ["Client", "Score", "ServiceError", "output_of", "score_texts", "text_of"]
