from pathlib import Path


def write_html(results, path: Path) -> None:
    path.write_text("")
