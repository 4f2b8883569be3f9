"""The one error a user can cause and mend."""


class InputError(ValueError):
    """Bad input: one line that says what was got, what was needed and what to do."""


def choose(kind: str, name: str, known) -> str:
    """`name` itself when it is one of the known names of a kind of thing, else an error that lists them."""
    if name not in known:
        raise InputError(f"unknown {kind} '{name}': choose one of {', '.join(sorted(known))}")
    return name
