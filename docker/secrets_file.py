"""Write `.env` beside `compose.yml`, with random secrets. An existing file is left as it is."""

import base64
import os
import secrets
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(folder: Path = HERE) -> int:
    """Write the file, unless it is there. Return the exit status."""
    path = folder / ".env"
    if path.exists():
        sys.stderr.write(f"{path} is there already, and stays as it is\n")
        return 1
    names = [line.split("=")[0] for line in (HERE / "env.example").read_text().splitlines() if "=" in line]
    values = {name: secrets.token_hex(32) for name in names}
    values["AIRFLOW_FERNET_KEY"] = base64.urlsafe_b64encode(os.urandom(32)).decode()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())
    sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
