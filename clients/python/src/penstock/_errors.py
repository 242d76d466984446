"""Errors of the client."""


class PenstockError(Exception):
    """Base class of all errors of this package."""


class InvalidRequest(PenstockError):
    """The service refused the request: it is malformed. Nothing was charged."""


class Unavailable(PenstockError):
    """The service did not answer, or not with an answer of its own."""


class NoReservation(PenstockError):
    """The reservation is unknown, or has expired."""


class ReservationClosed(PenstockError):
    """The reservation was concluded in another way already."""
