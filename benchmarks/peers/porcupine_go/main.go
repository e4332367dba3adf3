// Checks histories with Go Porcupine and prints one JSON object: file to seconds of searching alone, of wall time and of
// CPU time of all threads, and verdict.
//
// Usage: porcupine_go MILLISECONDS TIMEOUT_SECONDS FILE...
// A file that ends in .log is a register's history (etcd under Jepsen), in .ops a generated one, any other a key-value
// store's.
// Each file is checked again and again for so many milliseconds, and at least thrice unless one check takes a second;
// the seconds are the least. Reading is done once, before.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/anishathalye/porcupine"
)

type outcome struct {
	Verdict string  `json:"verdict"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
}

// cpuSeconds is the CPU time of this process so far.
func cpuSeconds() float64 {
	var now syscall.Timespec
	const processCPU = 2
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, processCPU, uintptr(unsafe.Pointer(&now)), 0)
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

// nothing stands for null, which no history here writes.
const nothing = -1

type registerCall struct {
	f          string
	first, new int
}

type registerAnswer struct {
	known   bool
	swapped bool
	value   int
}

func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return nothing },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			value := state.(int)
			call := input.(registerCall)
			answer := output.(registerAnswer)
			switch call.f {
			case "read":
				return !answer.known || answer.value == value, value
			case "write":
				return true, call.first
			}
			matches := call.first == value
			if answer.known && answer.swapped != matches {
				return false, value
			}
			if matches {
				return true, call.new
			}
			return true, value
		},
	}
}

var registerLine = regexp.MustCompile(`^INFO\s+jepsen\.util\s+-\s+(\d+)\s+:(\w+)\s+:(\w+)\s+(.*?)\s*$`)

func number(text string) int {
	if text == "nil" {
		return nothing
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func readRegister(lines []string) []porcupine.Event {
	events := []porcupine.Event{}
	open := map[int]int{}
	reads := map[int]bool{}
	id := 0
	for _, line := range lines {
		parts := registerLine.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		process := number(parts[1])
		kind, f, value := parts[2], parts[3], parts[4]
		if kind == "info" {
			continue
		}
		if kind == "invoke" {
			call := registerCall{f: f}
			if f == "cas" {
				pair := strings.Fields(strings.Trim(value, "[]"))
				call.first, call.new = number(pair[0]), number(pair[1])
			} else if f == "write" {
				call.first = number(value)
			}
			open[process] = id
			reads[id] = f == "read"
			events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.CallEvent, Value: call, Id: id})
			id++
			continue
		}
		answer := registerAnswer{known: true, swapped: kind == "ok"}
		if f == "read" && kind == "ok" {
			answer.value = number(value)
		} else if f == "read" {
			answer.known = false
		}
		events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.ReturnEvent, Value: answer, Id: open[process]})
		delete(open, process)
	}
	// What never completed may take effect at any later time: it returns after everything else.
	for process, id := range open {
		events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.ReturnEvent, Value: registerAnswer{}, Id: id})
	}
	return events
}

type keyValueCall struct {
	f, key, value string
}

func keyValueModel() porcupine.Model {
	return porcupine.Model{
		PartitionEvent: func(history []porcupine.Event) [][]porcupine.Event {
			byKey := map[string][]porcupine.Event{}
			keys := map[int]string{}
			order := []string{}
			for _, event := range history {
				if event.Kind == porcupine.CallEvent {
					keys[event.Id] = event.Value.(keyValueCall).key
				}
				key := keys[event.Id]
				if _, known := byKey[key]; !known {
					order = append(order, key)
				}
				byKey[key] = append(byKey[key], event)
			}
			parts := [][]porcupine.Event{}
			for _, key := range order {
				parts = append(parts, byKey[key])
			}
			return parts
		},
		Init: func() interface{} { return "" },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			call := input.(keyValueCall)
			switch call.f {
			case "get":
				return output.(string) == state.(string), state
			case "put":
				return true, call.value
			}
			return true, state.(string) + call.value
		},
	}
}

var keyValueLine = regexp.MustCompile(`^\{:process (\d+), :type :(\w+), :f :(\w+), :key "(.*?)", :value (?:"(.*)"|nil)\}$`)

func readKeyValue(lines []string) []porcupine.Event {
	events := []porcupine.Event{}
	open := map[int]int{}
	id := 0
	for _, line := range lines {
		parts := keyValueLine.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		process := number(parts[1])
		if parts[2] == "invoke" {
			call := keyValueCall{parts[3], parts[4], parts[5]}
			open[process] = id
			events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.CallEvent, Value: call, Id: id})
			id++
		} else {
			events = append(events, porcupine.Event{ClientId: process, Kind: porcupine.ReturnEvent, Value: parts[5], Id: open[process]})
			delete(open, process)
		}
	}
	return events
}

func readLines(name string) []string {
	file, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	lines := []string{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 1<<20), 1<<26)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	return lines
}

func main() {
	length := time.Duration(number(os.Args[1])) * time.Millisecond
	timeout := time.Duration(number(os.Args[2])) * time.Second
	outcomes := map[string]outcome{}
	for _, name := range os.Args[3:] {
		model := keyValueModel()
		events := []porcupine.Event{}
		operations := []porcupine.Operation{}
		if strings.HasSuffix(name, ".ops") {
			model, operations = readGenerated(readLines(name))
		} else if strings.HasSuffix(name, ".log") {
			model = registerModel()
			events = readRegister(readLines(name))
		} else {
			events = readKeyValue(readLines(name))
		}
		best := outcome{Seconds: math.Inf(1), CPU: math.Inf(1)}
		began := time.Now()
		for i := 0; i < 3 || time.Since(began) < length; i++ {
			start, cpu := time.Now(), cpuSeconds()
			var result porcupine.CheckResult
			if len(operations) > 0 {
				result = porcupine.CheckOperationsTimeout(model, operations, timeout)
			} else {
				result = porcupine.CheckEventsTimeout(model, events, timeout)
			}
			seconds := time.Since(start).Seconds()
			best.Seconds = math.Min(best.Seconds, seconds)
			best.CPU = math.Min(best.CPU, cpuSeconds()-cpu)
			best.Verdict = strings.ToLower(string(result))
			if seconds > 1 {
				break
			}
		}
		outcomes[name] = best
	}
	text, _ := json.Marshal(outcomes)
	fmt.Println(string(text))
}
