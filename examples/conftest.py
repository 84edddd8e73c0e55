"""The secret that DATA-2025-001 makes its one-time passwords from. A real one is set by the CI system."""

import os

os.environ.setdefault("DEMO_TOTP", "otpauth://totp/Demo:ann?secret=JBSWY3DPEHPK3PXP&issuer=Demo")
