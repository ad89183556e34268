"""What goes wrong in this package, each error with its remedy. No other exception leaves the package on purpose."""

from pathlib import Path


class DevClusterError(Exception):
    """Something that the development cluster needs is missing, or one of its servers failed.

    Attributes:
        message: what is wrong, in a sentence.
        remedy: what the reader can do about it.
        log: the server's log, where there is one.
        log_tail: the last lines of that log.
    """

    def __init__(self, message: str, *, remedy: str, log: Path | None = None, log_tail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.log = log
        self.log_tail = log_tail

    def __str__(self) -> str:
        parts = [self.message, f"Remedy: {self.remedy}"]
        if self.log is not None:
            parts.append(f"Log: {self.log}")
        if self.log_tail:
            parts.append(self.log_tail)
        return "\n".join(parts)
