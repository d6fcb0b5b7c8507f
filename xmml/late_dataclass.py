"""The decorator `dataclass` of the standard library, whose work is done when the first object of a class is made.

Writing the methods of one dataclass takes Python about half a millisecond, and a command loads more than a hundred of
them, half of which it never uses. What the decorator does and means is otherwise the same: the class that it leaves
behind is the one that the standard library makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    import sys
    from threading import RLock

    #: Names of the class that the standard library's decorator would set, and that others read before an object exists.
    _READ_FROM_THE_CLASS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

    #: Held while a class is completed: two threads may make its first objects.
    _completing = RLock()

    def dataclass(cls=None, /, **options):
        """As `dataclasses.dataclass`; see the module."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if options.get("slots") or not options.get("init", True) or "__init__" in cls.__dict__:
            return dataclasses.dataclass(cls, **options)  # makes another class, or leaves no method to wait in
        late = _Late(cls, options)

        def first(self, *args, **kwargs):
            late.complete()
            cls.__init__(self, *args, **kwargs)

        cls.__init__ = first
        for name in _READ_FROM_THE_CLASS:
            if name not in cls.__dict__:
                setattr(cls, name, _LateName(name, late))
        return cls

    class _Late:
        """A class whose methods are still to be written."""

        def __init__(self, cls, options):
            self.cls = cls
            self.options = options
            self.is_complete = False

        def complete(self):
            """Have the standard library write the methods, unless that has been done."""
            with _completing:
                if self.is_complete:
                    return
                # The standard library replaces the other names. Without them another thread would take the class for
                # no dataclass meanwhile.
                if isinstance(self.cls.__dict__.get("__match_args__"), _LateName):
                    del self.cls.__match_args__
                if len(sys._current_frames()) > 1:
                    self.write_beside_other_threads()
                else:
                    self.write()
                self.is_complete = True

        def write(self):
            """Write the methods. The standard library writes no `__init__` where there is one, so ours goes first."""
            first = self.cls.__init__
            del self.cls.__init__
            try:
                dataclasses.dataclass(self.cls, **self.options)
            except BaseException:
                self.cls.__init__ = first  # so that the mistake is told again, not followed by others
                raise

        def write_beside_other_threads(self):
            """Write the methods; at no time is the class without an `__init__`, because another thread may make an
            object meanwhile. So it is written for an heir, which takes longer, and put here."""
            cls = self.cls
            dataclasses.dataclass(cls, **self.options)
            names = {"__doc__": "", "__module__": cls.__module__, "__qualname__": cls.__qualname__}
            heir = type(cls)(cls.__name__, (cls,), names)
            only_init = {"repr": False, "eq": False, "order": False, "unsafe_hash": False, "match_args": False}
            cls.__init__ = dataclasses.dataclass(heir, **{**self.options, **only_init}).__init__

    class _LateName:
        """An attribute of a class that is there once the class is complete."""

        def __init__(self, name, late):
            self.name = name
            self.late = late

        def __get__(self, instance, owner):
            self.late.complete()
            return getattr(owner, self.name)
