// SPDX-License-Identifier: Apache-2.0

// Package lines is lines.py for programs in Go: commands on the input, a line as the answer to each.
package lines

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

// Client is a program's response to each command.
type Client interface {
	List() ([]string, error)
	Connect(address string) error
	Services() ([]string, error)
	Read(uuid string) ([]byte, error)
	Write(uuid string, value []byte) error
	Notify(uuid string) error
	Disconnect() error
}

var one sync.Mutex

// Say writes a line; goroutines say things, too.
func Say(line string) {
	one.Lock()
	defer one.Unlock()
	fmt.Println(line)
}

// describe names the error, too, where a bus does.
func describe(err error) string {
	var named dbus.Error
	if errors.As(err, &named) {
		return named.Name + " " + named.Error()
	}
	return err.Error()
}

func do(client Client, words []string) (answer []string, err error) {
	switch words[0] {
	case "list":
		return client.List()
	case "connect":
		return nil, client.Connect(words[1])
	case "services":
		return client.Services()
	case "read":
		value, err := client.Read(words[1])
		return []string{hex.EncodeToString(value)}, err
	case "write":
		value, _ := hex.DecodeString(words[2])
		return nil, client.Write(words[1], value)
	case "notify":
		return nil, client.Notify(words[1])
	}
	return nil, client.Disconnect()
}

// Serve answers until the input ends.
func Serve(client Client) {
	Say("ready")
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		answer, err := do(client, words)
		if err != nil {
			Say(strings.Join(append([]string{"failed", words[0]}, strings.Fields(describe(err))...), " "))
		} else {
			Say(strings.Join(append([]string{"ok", words[0]}, answer...), " "))
		}
	}
}
