"""Archives: objects of pools on disk, found by their attributes.

An archive is a folder. Payloads stand one behind the other in segments (``segment-000001``, ...), which are only ever
appended to: each as the filter ``serialize`` writes it, with the elements of its first array at a multiple of 64 bytes.
What is known of each object stands in ``index.sqlite``: a row for an object, a column for an attribute. Rows are
written in a transaction when their payloads are on the disk, so that a program or machine that fails at any moment
leaves whole objects, and whole groups of them, or none.

`archive` reads and `writer` writes, by way of `segments` and `index`. These open what lies in the folder by `files` and
`connection`, which trust nobody who has written there. `compaction` drops objects. `arrays` makes one array of many
objects, `data_array` one of xarray, `exporters` files. `terminal` is the terminal of class `archive`.
Programs take `open_archive`, `Archive`, `ArchivedObject` and `ArchiveError` from `xmml`.

>>> from xmml_native.archives.archive import Archive
>>> from xmml_native.archives.writer import ArchiveWriter
>>> with ArchiveWriter("fields.archive") as archive:
...     archive.declare("step:int[0..]!")
...     archive.append(np.zeros((3, 4)), {"step": 6}, {})
>>> with Archive("fields.archive") as archive:
...     for field in archive.select("step % 6 = 0"):
...         print(field["step"], field.data.mean())
"""
