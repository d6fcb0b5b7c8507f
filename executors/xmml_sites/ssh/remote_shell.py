"""Texts for the shell at the other end."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

#: Printed on both outputs before those of the command, so that what login scripts print can be told from it.
BEGIN = b"\x1exmml\n"

#: How long after its time limit a forgotten command is ended at the site [s].
LATE_S = 5

#: Whether a folder is ours, and no link.
_IS_OWN = '[ -O "$own" ] && [ ! -L "$own" ]'


def path_word(path: str) -> str:
    """A path as a word for the shell; `~/` stays the home directory."""
    if path == "~":
        return '"$HOME"'
    if path.startswith("~/"):
        return '"$HOME"/' + shlex.quote(path[2:])
    return shlex.quote(path)


def written_whole(path: str, size: int, mode: int) -> str:
    """A file that is written from the standard input, made whole before it has its name; folders on the way are made.

    What comes to an end before so many bytes was cut off. Another command may still write the same file: that of a
    launcher that was killed, and is gone on with.
    """
    return (
        f'umask 077; f={path_word(path)}; p="$f.$$.part"; mkdir -p "$(dirname "$f")" && cat > "$p" && '
        f'[ "$(wc -c < "$p")" -eq {size} ] && chmod {mode:o} "$p" && mv -f "$p" "$f" || '
        '{ s=$?; rm -f "$p"; exit $s; }'
    )


def guarded(line: str, otherwise: str) -> str:
    """A line that a user has written, which may end in a comment, and what is done if it fails: `$?` says how."""
    return f"{{ :; {line}\n}} || {otherwise}"


def bounded(command: str, limit_s: float) -> str:
    """A command that ends by itself soon after the limit, whether or not anybody still listens."""
    timed = f"timeout -k {LATE_S} {limit_s + LATE_S:g} /bin/sh -c {shlex.quote(_announced(command))}"
    # The shell in between turns the end by a signal into a status, which ssh itself does not hand on.
    return f"exec /bin/sh -c {shlex.quote(timed + '; exit $?')}"


def leased(command: str, *, folder: str, lease_s: float, ends_connection: bool) -> str:
    """A command that is ended when its lease has not been renewed during a whole lease time.

    Args:
        folder: at the site, of this command alone; made when it begins and removed when it has ended. There lie `pid`,
            the process group, and `lease`, or `lapsed` when the lease is over, or `end` when it is not to begin. One
            that is there before says that the command has been ended already.
        ends_connection: a lease that is over ends the ssh connection as well, through which the command came.
    """
    watch = (
        'while [ -e "$0/lease" ]; do old=$(cat "$0/lease"); '
        f"sleep {lease_s:g}; "
        '[ -e "$0/lease" ] || exit 0; '
        'if [ "$(cat "$0/lease")" = "$old" ]; then mv "$0/lease" "$0/lapsed"; kill -s TERM -- "-$1"; sleep 2; '
        'kill -s KILL -- "-$1"; exit 0; fi; done'
    )
    # sshd may not know for hours that nobody is there any more; until then it keeps the ports that it forwards.
    # The shell knows its first parent; the system, the present one.
    ending = (
        'parent=$(cut -d " " -f 4 /proc/$$/stat)\n'
        '[ "$lapsed" ] && [ "$parent" = "$PPID" ] && case $(cat "/proc/$PPID/comm") in sshd*) kill "$PPID";; esac\n'
    )
    script = (
        f"own={shlex.quote(folder)}\n"
        f'mkdir -m 700 "$own" || {{ {_IS_OWN} && rm -rf "$own"; exit 73; }}\n'
        'echo 0 > "$own/lease"\n'
        '[ -e "$own/lease" ] || { rm -rf "$own"; exit 73; }\n'
        "exec 3<&0\n"
        # exec keeps the number: it is the process group's, too.
        'setsid /bin/sh -c \'echo $$ > "$0/pid" && [ ! -e "$0/end" ] && exec /bin/sh -c "$1"\' "$own" '
        f"{shlex.quote(_announced(command))} <&3 3<&- &\n"
        "group=$!\n"
        "exec 3<&- </dev/null\n"
        f'setsid /bin/sh -c {shlex.quote(watch)} "$own" "$group" >/dev/null 2>&1 &\n'
        "watch=$!\n"
        "trap '' TERM INT HUP PIPE\n"
        'wait "$group"\n'
        "status=$?\n"
        "exec 2>/dev/null\n"
        'kill -s KILL "$watch"; kill -s KILL -- "-$watch"; kill -s KILL -- "-$group"\n'
        'lapsed=; [ -e "$own/lapsed" ] && lapsed=1\n'
        'rm -rf "$own"\n' + (ending if ends_connection else "") + "exit $status\n"
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


def self_ending(command: str, *, lease_s: float, ends_connection: bool) -> str:
    """A program of ours that ends with its input and with its lease (`native/site/src/input_lease.rs`), so that nothing
    has to watch it. The first line on its standard error, before its own output, is its process id and start, as
    `kill_program` takes them.

    Args:
        command: shell text that becomes the program; further words of its command line may follow.
        lease_s: it ends when nothing has come over its input for so long.
        ends_connection: so does the ssh connection then, through which it came.
    """
    words = f"{command} --lease {lease_s:g}" + (" --connection $PPID" if ends_connection else "")
    named = 'echo "$$ $(cut -d " " -f 22 /proc/$$/stat)" >&2\n'
    return f"exec /bin/sh -c {shlex.quote(_announced(named + words))}"


def kill_program(number: str, start: str) -> str:
    """End a program of ours that does not end with its input; its number may be another's by now."""
    pid = shlex.quote(number)
    return f'[ "$(cut -d " " -f 22 /proc/{pid}/stat 2>/dev/null)" != {shlex.quote(start)} ] || kill -s KILL {pid}'


def kill_group(folder: str) -> str:
    """End a leased command: ask, wait for 3 seconds, force. If it has not begun, it will not: the folder is there. If
    it is over, the folder stays."""
    return (
        f'own={shlex.quote(folder)}; mkdir -m 700 "$own" 2>/dev/null && exit 0; '
        # Nobody else's folder says what is to be ended.
        f'{_IS_OWN} || exit 0; [ -e "$own/pid" ] || : > "$own/end"; '
        'group=$(cat "$own/pid" 2>/dev/null) && [ "$group" ] || exit 0; '
        'kill -s TERM -- "-$group" 2>/dev/null; i=0; '
        'while kill -s 0 -- "-$group" 2>/dev/null && [ $i -lt 60 ]; do sleep 0.05; i=$((i + 1)); done; '
        'kill -s KILL -- "-$group" 2>/dev/null; true'
    )


def renewal(folders: Iterable[str], stamp: int) -> str:
    """Renew leases. A command that has ended has none any more and gets no new one, not even where somebody else has
    made a folder of that name since, with a link in it."""
    words = " ".join(map(shlex.quote, folders))
    renew = f'[ ! -L "$own" ] && cd -- "$own" 2>/dev/null && [ -O . ] && [ -e lease ] && echo {stamp} > lease'
    return f"for own in {words}; do ( {renew} ); done; true"


def _announced(command: str) -> str:
    return f"printf '\\036xmml\\n'; printf '\\036xmml\\n' >&2\n{command}"
