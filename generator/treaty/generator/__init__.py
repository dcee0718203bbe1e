"""Build time: schemas to text. `generate` and `check` take modules by name; `load` is for notebooks."""

from treaty.generator._check import check as check
from treaty.generator._findings import Finding as Finding
from treaty.generator._generate import generate as generate
from treaty.generator._load import load as load
