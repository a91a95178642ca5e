"""``python -m correlator``: the same as the command ``correlator``."""

import sys

from correlator.cli import main

sys.exit(main())
