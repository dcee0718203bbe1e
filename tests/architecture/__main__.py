"""Write the generated parts of docs/architecture.md: python -m tests.architecture"""

from tests.architecture.page import PAGE, written

PAGE.write_text(written(PAGE.read_text()))
