// SPDX-License-Identifier: Apache-2.0

// BluezQt, KDE's library: its manager keeps all adapters, devices and services of theirs as objects.

#include <BluezQt/Adapter>
#include <BluezQt/Device>
#include <BluezQt/GattCharacteristicRemote>
#include <BluezQt/GattServiceRemote>
#include <BluezQt/InitManagerJob>
#include <BluezQt/Manager>
#include <BluezQt/PendingCall>
#include <QCoreApplication>
#include <QEventLoop>
#include <QSocketNotifier>
#include <QStringList>

#include <iostream>
#include <stdexcept>
#include <string>

using namespace BluezQt;

static void say(const QString &line) { std::cout << line.toStdString() << std::endl; }

class Client
{
public:
    Client()
    {
        auto *job = manager.init();
        if (!job->exec()) {
            throw std::runtime_error(job->errorText().toStdString());
        }
        QObject::connect(&manager, &Manager::operationalChanged, [](bool operational) {
            if (!operational) {
                say("bluez gone");
            }
        });
        // A device that goes at once with its link may have no time to say that it is not connected.
        QObject::connect(&manager, &Manager::deviceRemoved, [this](DevicePtr removed) {
            if (removed == device) {
                disconnected();
            }
        });
    }

    QString answer(const QStringList &words)
    {
        const QString verb = words[0];
        if (verb == "list") {
            QStringList addresses;
            for (const auto &each : manager.devices()) {
                addresses << each->address();
            }
            addresses.sort();
            return addresses.join(' ');
        }
        if (verb == "connect") {
            return connect(words[1]);
        }
        if (verb == "services") {
            QStringList uuids;
            for (const auto &each : device->gattServices()) {
                uuids << each->uuid().toLower();
            }
            uuids.sort();
            return uuids.join(' ');
        }
        if (verb == "read") {
            return finished(characteristic(words[1])->readValue({}))->value().toByteArray().toHex();
        }
        if (verb == "write") {
            finished(characteristic(words[1])->writeValue(QByteArray::fromHex(words[2].toLatin1()), {}));
        } else if (verb == "notify") {
            auto found = characteristic(words[1]);
            QObject::connect(found.data(), &GattCharacteristicRemote::valueChanged, [](const QByteArray &value) { say("value " + value.toHex()); });
            finished(found->startNotify());
        } else {
            finished(device->disconnectFromDevice());
        }
        return {};
    }

private:
    Manager manager;
    DevicePtr device;
    bool isUp = false;

    void disconnected()
    {
        if (isUp) {
            say("disconnected");
        }
        isUp = false;
    }

    // Waits for the result of the call.
    PendingCall *finished(PendingCall *call)
    {
        call->waitForFinished();
        if (call->error()) {
            throw std::runtime_error((QString::number(call->error()) + " " + call->errorText()).toStdString());
        }
        return call;
    }

    QString connect(const QString &address)
    {
        auto found = manager.deviceForAddress(address);
        if (!found) {
            throw std::runtime_error("no such device");
        }
        if (found != device) {
            device = found;
            QObject::connect(device.data(), &Device::connectedChanged, [this](bool connected) {
                if (!connected) {
                    disconnected();
                }
            });
        }
        finished(device->connectToDevice());
        isUp = true;
        while (!device->isServicesResolved()) {
            QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
        }
        return {};
    }

    GattCharacteristicRemotePtr characteristic(const QString &uuid)
    {
        for (const auto &service : device->gattServices()) {
            for (const auto &each : service->characteristics()) {
                if (each->uuid().toLower() == uuid) {
                    return each;
                }
            }
        }
        throw std::runtime_error("no such characteristic");
    }
};

int main(int count, char **arguments)
{
    QCoreApplication application(count, arguments);
    Client client;
    QSocketNotifier input(0, QSocketNotifier::Read);
    QObject::connect(&input, &QSocketNotifier::activated, [&] {
        std::string line;
        if (!std::getline(std::cin, line)) {
            QCoreApplication::quit();
            return;
        }
        const QStringList words = QString::fromStdString(line).split(' ');
        try {
            say(("ok " + words[0] + " " + client.answer(words)).trimmed());
        } catch (const std::exception &error) {
            say("failed " + words[0] + " " + QString(error.what()).simplified());
        }
    });
    say("ready");
    return application.exec();
}
