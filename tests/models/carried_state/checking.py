"""A filter of our own on the way of the state."""


def check(message):
    assert message.data is not None
    return message
