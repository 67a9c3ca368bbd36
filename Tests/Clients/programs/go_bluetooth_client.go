// SPDX-License-Identifier: Apache-2.0

// Command go_bluetooth_client is muka/go-bluetooth, as its examples use it: an agent is exposed first, then the default adapter's devices are
// looked through.
package main

import (
	"encoding/hex"
	"errors"
	"sort"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/muka/go-bluetooth/api"
	"github.com/muka/go-bluetooth/bluez/profile/adapter"
	"github.com/muka/go-bluetooth/bluez/profile/agent"
	"github.com/muka/go-bluetooth/bluez/profile/device"
	"github.com/muka/go-bluetooth/bluez/profile/gatt"

	"clients/lines"
)

type client struct {
	agent   bool
	adapter *adapter.Adapter1
	device  *device.Device1
	watched map[dbus.ObjectPath]bool
}

// begin exposes the agent, as the examples do before anything else.
func (c *client) begin() error {
	if c.agent {
		return nil
	}
	bus, err := dbus.SystemBus()
	if err != nil {
		return err
	}
	if err = agent.ExposeAgent(bus, agent.NewSimpleAgent(), agent.CapKeyboardDisplay, true); err != nil {
		return errors.New("ExposeAgent: " + err.Error())
	}
	c.agent = true
	return nil
}

func (c *client) open() (err error) {
	if c.adapter == nil {
		c.adapter, err = api.GetDefaultAdapter()
	}
	return err
}

func (c *client) List() ([]string, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	devices, err := c.adapter.GetDevices()
	addresses := []string{}
	for _, each := range devices {
		addresses = append(addresses, each.Properties.Address)
	}
	sort.Strings(addresses)
	return addresses, err
}

func (c *client) Connect(address string) (err error) {
	if err = c.open(); err != nil {
		return err
	}
	if c.device, err = c.adapter.GetDeviceByAddress(address); err != nil {
		return err
	}
	if c.device == nil {
		return errors.New("no such device")
	}
	if !c.watched[c.device.Path()] {
		changes, err := c.device.WatchProperties()
		if err != nil {
			return err
		}
		c.watched[c.device.Path()] = true
		go func() {
			for each := range changes {
				if each != nil && each.Name == "Connected" && each.Value == false {
					lines.Say("disconnected")
				}
			}
		}()
	}
	if err = c.device.Connect(); err != nil {
		return err
	}
	for {
		if resolved, err := c.device.GetServicesResolved(); err != nil || resolved {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Services are those of the characteristics: the library has no list of services.
func (c *client) Services() ([]string, error) {
	characteristics, err := c.device.GetCharacteristics()
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, each := range characteristics {
		service, err := gatt.NewGattService1(each.Properties.Service)
		if err != nil {
			return nil, err
		}
		found[strings.ToLower(service.Properties.UUID)] = true
	}
	uuids := []string{}
	for each := range found {
		uuids = append(uuids, each)
	}
	sort.Strings(uuids)
	return uuids, nil
}

func (c *client) Read(uuid string) ([]byte, error) {
	characteristic, err := c.device.GetCharByUUID(uuid)
	if err != nil {
		return nil, err
	}
	return characteristic.ReadValue(nil)
}

func (c *client) Write(uuid string, value []byte) error {
	characteristic, err := c.device.GetCharByUUID(uuid)
	if err != nil {
		return err
	}
	return characteristic.WriteValue(value, nil)
}

func (c *client) Notify(uuid string) error {
	characteristic, err := c.device.GetCharByUUID(uuid)
	if err != nil {
		return err
	}
	changes, err := characteristic.WatchProperties()
	if err != nil {
		return err
	}
	go func() {
		for each := range changes {
			if each == nil {
				return
			}
			if value, is := each.Value.([]byte); is && each.Name == "Value" {
				lines.Say("value " + hex.EncodeToString(value))
			}
		}
	}()
	return characteristic.StartNotify()
}

func (c *client) Disconnect() error { return c.device.Disconnect() }

func main() {
	lines.Serve(&client{watched: map[dbus.ObjectPath]bool{}})
}
