"""Ways out by the network, and to the sockets of the machine."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
import threading
import time
from typing import Any

from confined import Targets
from kit import Header, attack, call, in_address, refused, un_address

HOST = "127.0.0.1"
FASTOPEN = 0x20000000


def udp(family: int = socket.AF_INET) -> socket.socket:
    return socket.socket(family, socket.SOCK_DGRAM)


@attack("tcp", arrives=("tcp3000",))
def tcp_3000(t: Targets) -> Any:
    return socket.create_connection((HOST, 3000), 5)


@attack("tcp", arrives=("tcp3000",))
def tcp_3000_blocking(t: Targets) -> Any:
    return socket.socket().connect((HOST, 3000))


@attack("tcp", arrives=("tcp3000",))
def tcp_3000_nonblocking(t: Targets) -> Any:
    sock = socket.socket()
    sock.setblocking(False)
    try:
        sock.connect((HOST, 3000))
    except BlockingIOError:
        return "on its way"


@attack("tcp", arrives=("tcp3000v6",))
def tcp_3000_ipv6(t: Targets) -> Any:
    return socket.create_connection(("::1", 3000), 5)


@attack("tcp", arrives=("tcp3000",))
def tcp_3000_mapped(t: Targets) -> Any:
    return socket.socket(socket.AF_INET6).connect(("::ffff:127.0.0.1", 3000))


@attack("tcp")
def tcp_22(t: Targets) -> Any:
    return socket.create_connection((HOST, 22), 5)


@attack("tcp")
def tcp_80(t: Targets) -> Any:
    return socket.create_connection((HOST, 80), 5)


@attack("tcp")
def tcp_444(t: Targets) -> Any:
    return socket.create_connection((HOST, 444), 5)


@attack("tcp", arrives=("tcp3000",))
def fast_open_sendto(t: Targets) -> Any:
    return socket.socket().sendto(b"x", FASTOPEN, (HOST, 3000))


@attack("tcp", arrives=("tcp3000",))
def fast_open_sendto_with_null_address(t: Targets) -> Any:
    return call("sendto", socket.socket().detach(), b"x", 1, FASTOPEN, 0, 0)


@attack("tcp", arrives=("tcp3000",))
def fast_open_sendmsg(t: Targets) -> Any:
    return socket.socket().sendmsg([b"x"], [], FASTOPEN, (HOST, 3000))


@attack("tcp", arrives=("tcp3000",))
def fast_open_sendmmsg(t: Targets) -> Any:
    header = Header(b"x", in_address(HOST, 3000))
    messages = ctypes.create_string_buffer(header.bytes + bytes(8))
    return call("sendmmsg", socket.socket().detach(), messages, 1, FASTOPEN)


@attack("tcp", arrives=("tcp3000",))
def fast_open_connect(t: Targets) -> Any:
    sock = socket.socket()
    sock.setsockopt(socket.IPPROTO_TCP, 30, 1)
    sock.connect((HOST, 3000))
    return sock.send(b"x")


@attack("tcp", arrives=("tcp3000",))
def multipath(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect((HOST, 3000))


@attack("tcp")
def smc_by_protocol(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 256)


@attack("tcp")
def sctp(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)


@attack("tcp")
def sctp_seqpacket(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, 132)


@attack("tcp")
def dccp(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, 6, 33)


@attack("tcp", arrives=("tcp3000", "udp9999"))
def race_the_port(t: Targets) -> Any:
    """Another thread changes the address between the decision and the connection."""
    address = ctypes.create_string_buffer(in_address(HOST, 443), 16)
    good, bad = in_address(HOST, 443), in_address(HOST, 3000)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            ctypes.memmove(address, bad, 16)
            ctypes.memmove(address, good, 16)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(60):
            sock = socket.socket()
            with contextlib.suppress(OSError):
                call("connect", sock.fileno(), address, 16)
                if sock.getpeername()[1] == 3000:
                    return "connected"
            sock.close()
    finally:
        stop.set()
        thread.join()
    raise refused()


@attack("udp", arrives=("udp9999",))
def race_the_descriptor(t: Targets) -> Any:
    """Another thread puts a datagram socket where a stream socket was, and connects it to anywhere."""
    stream, datagrams = socket.socket(), udp()
    place = os.dup(stream.fileno())
    address = in_address(HOST, 9999)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            os.dup2(datagrams.fileno(), place)
            os.dup2(stream.fileno(), place)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(60):
            with contextlib.suppress(OSError):
                call("connect", place, address, 16)
            with contextlib.suppress(OSError):
                datagrams.send(b"out")
                return "sent"
    finally:
        stop.set()
        thread.join()
    raise refused()


@attack("udp", arrives=("udp9999",))
def race_the_message(t: Targets) -> Any:
    """Another thread changes the address that a message header points to."""
    header = Header(b"out", in_address(HOST, 53))
    good, bad = in_address(HOST, 53), in_address(HOST, 9999)
    message = ctypes.create_string_buffer(header.bytes)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            ctypes.memmove(header.address, bad, 16)
            ctypes.memmove(header.address, good, 16)

    thread = threading.Thread(target=flip)
    thread.start()
    sock = udp()
    try:
        for _ in range(60):
            with contextlib.suppress(OSError):
                call("sendmsg", sock.fileno(), message, 0)
    finally:
        stop.set()
        thread.join()
    raise refused()  # what counts is whether anything arrived


@attack("udp", arrives=("udp9999",))
def udp_sendto(t: Targets) -> Any:
    return udp().sendto(b"x", (HOST, 9999))


@attack("udp", arrives=("udp9999v6",))
def udp_sendto_ipv6(t: Targets) -> Any:
    return udp(socket.AF_INET6).sendto(b"x", ("::1", 9999))


@attack("udp", arrives=("udp9999",))
def udp_sendto_mapped(t: Targets) -> Any:
    return udp(socket.AF_INET6).sendto(b"x", ("::ffff:127.0.0.1", 9999))


@attack("udp", arrives=("udp9999",))
def udp_to_ipv4_by_an_ipv6_socket(t: Targets) -> Any:
    return call("sendto", udp(socket.AF_INET6).detach(), b"x", 1, 0, in_address(HOST, 9999), 16)


@attack("udp", arrives=("udp443",))
def udp_443(t: Targets) -> Any:
    return udp().sendto(b"x", (HOST, 443))


@attack("udp", arrives=("udp9999",))
def udp_connect_and_send(t: Targets) -> Any:
    sock = udp()
    sock.connect((HOST, 9999))
    return sock.send(b"x")


@attack("udp", arrives=("udp9999",), errors=(errno.EDESTADDRREQ,))
def udp_connect_and_write(t: Targets) -> Any:
    sock = udp()
    with contextlib.suppress(OSError):
        sock.connect((HOST, 9999))
    return os.write(sock.fileno(), b"x")


@attack("udp", arrives=("udp9999",))
def udp_reconnect_elsewhere(t: Targets) -> Any:
    sock = udp()
    sock.connect((HOST, 53))
    sock.connect((HOST, 9999))
    return sock.send(b"x")


@attack("udp", arrives=("udp9999",))
def udp_sendmsg(t: Targets) -> Any:
    return udp().sendmsg([b"x"], [], 0, (HOST, 9999))


@attack("udp", arrives=("udp9999",))
def udp_sendmsg_on_a_connected_socket(t: Targets) -> Any:
    sock = udp()
    sock.connect((HOST, 53))
    return sock.sendmsg([b"x"], [], 0, (HOST, 9999))


@attack("udp", arrives=("udp9999",))
def udp_sendmmsg_second(t: Targets) -> Any:
    first, second = Header(b"x", in_address(HOST, 53)), Header(b"x", in_address(HOST, 9999))
    messages = ctypes.create_string_buffer(first.bytes + bytes(8) + second.bytes + bytes(8))
    if call("sendmmsg", udp().detach(), messages, 2, 0) < 2:
        raise refused(errno.EACCES)
    return 2


@attack("udp", arrives=("udp9999",))
def udp_without_a_family(t: Targets) -> Any:
    address = bytes(2) + in_address(HOST, 9999)[2:]
    return call("sendto", udp().detach(), b"x", 1, 0, address, 16)


@attack("udp")
def udp_lite(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136).sendto(b"x", (HOST, 9999))


@attack("udp")
def udp_server(t: Targets) -> Any:
    return udp().bind((HOST, 5353))


@attack("udp")
def udp_from_a_stranger(t: Targets) -> Any:
    """A datagram socket that asked a name server once hears from port 53 only."""
    hears, tells = udp(), udp()
    hears.bind((HOST, 0))
    hears.settimeout(0.3)
    port = hears.getsockname()[1]
    with contextlib.suppress(OSError):
        tells.sendto(b"evil", (HOST, port))
    with contextlib.suppress(TimeoutError):
        return hears.recv(16)
    raise refused()


@attack("udp")
def udp_filter_of_its_own(t: Targets) -> Any:
    """A filter that is locked before nd7 can put its own."""
    sock = udp()
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFF))
    sock.setsockopt(socket.SOL_SOCKET, 26, struct.pack("H6xQ", 1, ctypes.addressof(code)))
    sock.setsockopt(socket.SOL_SOCKET, 44, 1)
    return sock.bind((HOST, 0))


@attack("udp")
def udp_filter_taken_off(t: Targets) -> Any:
    sock = udp()
    sock.bind((HOST, 0))
    return sock.setsockopt(socket.SOL_SOCKET, 27, 0)


@attack("other-network")
def raw_socket(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)


@attack("other-network")
def packet_socket(t: Targets) -> Any:
    return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)


@attack("other-network")
def packet_socket_the_old_way(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, 10, 0)


@attack("other-network")
def ping_socket(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)


def _family(number: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> Any:
    return call("socket", number, kind, protocol)


@attack("other-network")
def vsock(t: Targets) -> Any:
    return _family(40)


@attack("other-network")
def bluetooth(t: Targets) -> Any:
    return _family(31, socket.SOCK_RAW, 1)


@attack("other-network")
def kernel_crypto(t: Targets) -> Any:
    return _family(38, socket.SOCK_SEQPACKET)


@attack("other-network")
def xdp(t: Targets) -> Any:
    return _family(44, socket.SOCK_RAW)


@attack("other-network")
def smc(t: Targets) -> Any:
    return _family(43)


@attack("other-network")
def tipc(t: Targets) -> Any:
    return _family(30, socket.SOCK_SEQPACKET)


@attack("other-network")
def can_bus(t: Targets) -> Any:
    return _family(29, socket.SOCK_RAW, 1)


@attack("other-network")
def key_management(t: Targets) -> Any:
    return _family(15, socket.SOCK_RAW, 2)


def _netlink(protocol: int) -> Any:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)


@attack("netlink")
def netlink_audit(t: Targets) -> Any:
    return _netlink(9)


@attack("netlink")
def netlink_uevents(t: Targets) -> Any:
    return _netlink(15)


@attack("netlink")
def netlink_generic(t: Targets) -> Any:
    return _netlink(16)


@attack("netlink")
def netlink_socket_table(t: Targets) -> Any:
    return _netlink(4)


@attack("netlink")
def netlink_connector(t: Targets) -> Any:
    return _netlink(11)


def _new_address() -> bytes:
    body = struct.pack("BBBBi", 2, 8, 0, 254, 1) + struct.pack("HH4B", 8, 2, 10, 99, 99, 99)
    return struct.pack("IHHII", 16 + len(body), 20, 5, 1, 0) + body


def _acknowledged(sock: socket.socket) -> Any:
    """The kernel's own answer: an error, or 0 for done."""
    sock.settimeout(2)
    error = struct.unpack_from("i", sock.recv(4096), 16)[0]
    if error:
        raise refused(-error)
    return "done"


@attack("netlink")
def add_an_address_with_destination(t: Targets) -> Any:
    """The kernel asks the sender's capabilities only where an address is given: a supervisor who is root has them."""
    sock = _netlink(0)
    sock.sendto(_new_address(), (0, 0))
    return _acknowledged(sock)


@attack("netlink")
def add_an_address_without_destination(t: Targets) -> Any:
    sock = _netlink(0)
    sock.send(_new_address())
    return _acknowledged(sock)


@attack("netlink")
def add_an_address_by_sendmsg(t: Targets) -> Any:
    sock = _netlink(0)
    sock.sendmsg([_new_address()], [], 0, (0, 0))
    return _acknowledged(sock)


@attack("netlink")
def smuggle_behind_a_question(t: Targets) -> Any:
    question = struct.pack("IHHII", 20, 22, 0x301, 1, 0) + bytes(4)
    sock = _netlink(0)
    return sock.sendto(question + _new_address(), (0, 0))


@attack("netlink")
def netlink_to_another_process(t: Targets) -> Any:
    return _netlink(0).sendto(b"\0" * 16, (t.supervisor, 0))


@attack("unix")
def unix_stream(t: Targets) -> Any:
    return socket.socket(socket.AF_UNIX)


@attack("unix")
def unix_datagram(t: Targets) -> Any:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


@attack("unix")
def unix_seqpacket(t: Targets) -> Any:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@attack("unix")
def unix_with_rubbish_above_the_family(t: Targets) -> Any:
    return call("socket", 0x1_0000_0001, 1, 0)


@attack("unix")
def unix_datagram_pair(t: Targets) -> Any:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)


def _named(t: Targets, name: str = "named.sock") -> bytes:
    return un_address(os.fsencode(os.path.join(t.tmp, name)))


@attack("unix")
def rendezvous_socket_connected_elsewhere(t: Targets) -> Any:
    fd = call("socket", 1, 1, 0x6E64)
    return call("connect", fd, _named(t), len(_named(t)))


@attack("unix")
def pair_connected_to_a_path(t: Targets) -> Any:
    ours, _ = socket.socketpair()
    return call("connect", ours.fileno(), _named(t), len(_named(t)))


@attack("unix")
def pair_connected_to_an_abstract_name(t: Targets) -> Any:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return call("connect", ours.fileno(), un_address(b"\0nd7-stranger")[:-1], 16)


@attack("unix")
def pair_bound_to_a_path(t: Targets) -> Any:
    ours, _ = socket.socketpair()
    return ours.bind(os.path.join(t.tmp, "mine.sock"))


@attack("unix")
def pair_sending_to_a_path(t: Targets) -> Any:
    ours, _ = socket.socketpair()
    return call("sendto", ours.fileno(), b"x", 1, 0, _named(t, "datagram.sock"), len(_named(t, "datagram.sock")))


@attack("unix")
def pair_sending_a_message_to_a_path(t: Targets) -> Any:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    header = Header(b"x", _named(t, "datagram.sock"))
    return call("sendmsg", ours.fileno(), header.bytes, 0)


@attack("unix")
def forged_credentials(t: Targets) -> Any:
    ours, _ = socket.socketpair()
    control = struct.pack("QII3i4x", 28, 1, 2, t.supervisor, 0, 0)
    header = Header(b"x", control=control)
    return call("sendmsg", ours.fileno(), header.bytes, 0)


@attack("unix")
def rendezvous_of_another_number(t: Targets) -> Any:
    return call("socket", 1, 1, 0x6E66)


@attack("unix")
def rendezvous_as_datagram(t: Targets) -> Any:
    return call("socket", 1, 2, 0x6E64)


@attack("listen")
def tcp_server(t: Targets) -> Any:
    return socket.socket().bind((HOST, 8080))


@attack("listen")
def tcp_server_on_any_port(t: Targets) -> Any:
    sock = socket.socket()
    with contextlib.suppress(OSError):
        sock.bind((HOST, 0))
    return sock.listen()


@attack("listen")
def tcp_server_without_bind(t: Targets) -> Any:
    return socket.socket().listen()


@attack("listen")
def tcp_server_ipv6(t: Targets) -> Any:
    return socket.socket(socket.AF_INET6).bind(("::", 8080))


@attack("listen")
def unix_server_on_a_pair(t: Targets) -> Any:
    ours, _ = socket.socketpair()
    return ours.listen()


@attack("other-network")
def strangers_socket(t: Targets) -> Any:
    pidfd = os.pidfd_open(t.stranger)
    return call("pidfd_getfd", pidfd, 3, 0)


@attack("other-network")
def uring_socket(t: Targets) -> Any:
    time.sleep(0)
    return call("io_uring_setup", 4, ctypes.create_string_buffer(120))


@attack("other-network", arrives=("tcp3000",), errors=(errno.EPIPE,))
def sendto_on_an_unconnected_stream(t: Targets) -> Any:
    return socket.socket().sendto(b"x", (HOST, 3000))
