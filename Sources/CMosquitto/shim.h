// SPDX-License-Identifier: Apache-2.0
// libmosquitto as a Clang module: MQTT 5 for the fleet's agent and its operator's tool.
#pragma once
#include <mosquitto.h>
#include <mqtt_protocol.h>
