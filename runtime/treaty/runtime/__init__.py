"""Run time: values to state dicts and back, checked against the generated code of their classes."""

from treaty.runtime._abstract import abstract as abstract
from treaty.runtime._abstract import nbytes as nbytes
from treaty.runtime._errors import CodecError as CodecError
from treaty.runtime._errors import Mismatch as Mismatch
from treaty.runtime._errors import StateMismatchError as StateMismatchError
from treaty.runtime._state_dict import explain as explain
from treaty.runtime._state_dict import from_state_dict as from_state_dict
from treaty.runtime._state_dict import to_state_dict as to_state_dict
