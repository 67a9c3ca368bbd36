// SPDX-License-Identifier: Apache-2.0

// Command godbus_client is godbus by itself: calls of objects, and a channel with the signals.
package main

import (
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	"github.com/godbus/dbus/v5"

	"clients/lines"
)

const (
	device1         = "org.bluez.Device1"
	service1        = "org.bluez.GattService1"
	characteristic1 = "org.bluez.GattCharacteristic1"
	changed         = "org.freedesktop.DBus.Properties.PropertiesChanged"
)

type objects map[dbus.ObjectPath]map[string]map[string]dbus.Variant

type client struct {
	bus      *dbus.Conn
	path     dbus.ObjectPath
	resolved chan bool
}

func (c *client) follow(signals chan *dbus.Signal) {
	for signal := range signals {
		switch {
		case signal.Name == changed:
			c.change(signal)
		case signal.Name == "org.freedesktop.DBus.NameOwnerChanged" && signal.Body[0] == "org.bluez" && signal.Body[2] == "":
			lines.Say("bluez gone")
		}
	}
	lines.Say("bus gone")
}

func (c *client) change(signal *dbus.Signal) {
	values := signal.Body[1].(map[string]dbus.Variant)
	if value, there := values["Value"]; there && signal.Body[0] == characteristic1 {
		lines.Say("value " + hex.EncodeToString(value.Value().([]byte)))
	}
	if signal.Path != c.path {
		return
	}
	if value, there := values["Connected"]; there && value.Value() == false {
		lines.Say("disconnected")
	}
	if value, there := values["ServicesResolved"]; there && value.Value() == true {
		select {
		case c.resolved <- true:
		default:
		}
	}
}

func (c *client) call(path dbus.ObjectPath, method string, arguments ...interface{}) *dbus.Call {
	return c.bus.Object("org.bluez", path).Call(method, 0, arguments...)
}

// having returns the objects below a path that have an interface, with its properties.
func (c *client) having(name string, beneath dbus.ObjectPath) (map[dbus.ObjectPath]map[string]dbus.Variant, error) {
	var all objects
	if err := c.call("/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects").Store(&all); err != nil {
		return nil, err
	}
	found := map[dbus.ObjectPath]map[string]dbus.Variant{}
	for path, each := range all {
		if values, there := each[name]; there && strings.HasPrefix(string(path), string(beneath)) {
			found[path] = values
		}
	}
	return found, nil
}

// all returns one property of all objects.
func (c *client) all(name, property string, beneath dbus.ObjectPath) ([]string, error) {
	found, err := c.having(name, beneath)
	values := []string{}
	for _, each := range found {
		values = append(values, each[property].Value().(string))
	}
	sort.Strings(values)
	return values, err
}

func (c *client) find(name, property, value string, beneath dbus.ObjectPath) (dbus.ObjectPath, error) {
	found, err := c.having(name, beneath)
	if err != nil {
		return "", err
	}
	for path, each := range found {
		if each[property].Value() == value {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s with %s", name, value)
}

func (c *client) List() ([]string, error) { return c.all(device1, "Address", "/") }

func (c *client) Connect(address string) (err error) {
	if c.path, err = c.find(device1, "Address", address, "/"); err != nil {
		return err
	}
	select {
	case <-c.resolved:
	default:
	}
	if err = c.call(c.path, device1+".Connect").Err; err != nil {
		return err
	}
	value, err := c.bus.Object("org.bluez", c.path).GetProperty(device1 + ".ServicesResolved")
	if err == nil && value.Value() == false {
		<-c.resolved
	}
	return err
}

func (c *client) Services() ([]string, error) { return c.all(service1, "UUID", c.path) }

func (c *client) Read(uuid string) (value []byte, err error) {
	path, err := c.find(characteristic1, "UUID", uuid, c.path)
	if err == nil {
		err = c.call(path, characteristic1+".ReadValue", map[string]dbus.Variant{}).Store(&value)
	}
	return value, err
}

func (c *client) Write(uuid string, value []byte) error {
	path, err := c.find(characteristic1, "UUID", uuid, c.path)
	if err == nil {
		err = c.call(path, characteristic1+".WriteValue", value, map[string]dbus.Variant{}).Err
	}
	return err
}

func (c *client) Notify(uuid string) error {
	path, err := c.find(characteristic1, "UUID", uuid, c.path)
	if err == nil {
		err = c.call(path, characteristic1+".StartNotify").Err
	}
	return err
}

func (c *client) Disconnect() error { return c.call(c.path, device1+".Disconnect").Err }

func main() {
	bus, err := dbus.ConnectSystemBus()
	if err != nil {
		panic(err)
	}
	c := &client{bus: bus, resolved: make(chan bool, 1)}
	signals := make(chan *dbus.Signal, 100)
	bus.Signal(signals)
	if err = bus.AddMatchSignal(dbus.WithMatchSender("org.bluez"), dbus.WithMatchMember("PropertiesChanged")); err == nil {
		err = bus.AddMatchSignal(dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"))
	}
	if err != nil {
		panic(err)
	}
	go c.follow(signals)
	lines.Serve(c)
}
