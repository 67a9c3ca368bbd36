# SPDX-License-Identifier: Apache-2.0
"""A simulated polkit, as far as the daemon uses it: it decides as a test demands, or leaves a question open, as while a person types a password."""

from collections import namedtuple

import dbus
import dbus.service

POLKIT = "org.freedesktop.PolicyKit1"
AUTHORITY = f"{POLKIT}.Authority"

Question = namedtuple("Question", "kind name action flags cancellation")


class Authority(dbus.service.Object):
    """`answer` is its decision; None leaves questions open until `decide` is called or they are withdrawn. `asked` are all questions, `ended`
    the identifiers of withdrawn ones, known or not."""

    def __init__(self, client, answer):
        self.client, self.answer = client, answer
        self.asked, self.ended = [], []
        self.open = {}
        client.connection.request_name(POLKIT)
        super().__init__(client.connection, "/org/freedesktop/PolicyKit1/Authority")

    @dbus.service.method(AUTHORITY, in_signature="(sa{sv})sa{ss}us", out_signature="(bba{ss})", async_callbacks=("reply", "fail"))
    def CheckAuthorization(self, subject, action, details, flags, cancellation, reply, fail):
        question = Question(str(subject[0]), str(subject[1]["name"]), str(action), int(flags), str(cancellation))
        self.asked.append(question)
        if question.cancellation in self.open:
            return fail(self.error("CancellationIdNotUnique"))
        self.open[question.cancellation] = reply, fail
        if self.answer is not None:
            self.decide(question, self.answer)

    @dbus.service.method(AUTHORITY, in_signature="s", out_signature="")
    def CancelCheckAuthorization(self, cancellation):
        self.ended.append(str(cancellation))
        if str(cancellation) not in self.open:
            raise self.error("Failed")
        _, fail = self.open.pop(str(cancellation))
        fail(self.error("Cancelled"))

    def decide(self, question, answer):
        """The person has proved it, or has not."""
        reply, _ = self.open.pop(question.cancellation)
        reply((answer, False, dbus.Dictionary({}, signature="ss")))

    @staticmethod
    def error(name):
        return dbus.exceptions.DBusException("played", name=f"{POLKIT}.Error.{name}")
