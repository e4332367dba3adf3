// Histories that benchmarks/linearize_generated.py writes: whole operations, values and answers as whole numbers.
//
// The first line is the object. Each other line is an operation: key, function, call, end (-1: its outcome is
// unknown), argument, and what it answered ("?" if nobody knows): numbers with commas between them.
package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

type request struct {
	key, f   string
	argument []int
}

type answer struct {
	known  bool
	values []int
}

func numbers(text string) []int {
	values := []int{}
	if text == "" {
		return values
	}
	for _, part := range strings.Split(text, ",") {
		values = append(values, number(part))
	}
	return values
}

func readGenerated(lines []string) (porcupine.Model, []porcupine.Operation) {
	operations := []porcupine.Operation{}
	for index, line := range lines[1:] {
		parts := strings.Split(line, " ")
		call, _ := strconv.ParseInt(parts[2], 10, 64)
		end, _ := strconv.ParseInt(parts[3], 10, 64)
		if end < 0 {
			end = math.MaxInt64
		}
		output := answer{known: parts[5] != "?"}
		if output.known {
			output.values = numbers(parts[5])
		}
		if lines[0] == "key-value" {
			operation := porcupine.Operation{
				ClientId: index, Input: textRequest{parts[0], parts[1], text(numbers(parts[4]))}, Call: call, Return: end,
			}
			if output.known {
				operation.Output = text(output.values)
			}
			operations = append(operations, operation)
			continue
		}
		operations = append(operations, porcupine.Operation{
			ClientId: index, Input: request{parts[0], parts[1], numbers(parts[4])}, Call: call, Output: output, Return: end,
		})
	}
	if lines[0] == "key-value" {
		return generatedTextModel(), operations
	}
	return generatedModel(lines[0]), operations
}

func keyOf(input interface{}) string {
	if call, isText := input.(textRequest); isText {
		return call.key
	}
	return input.(request).key
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	order := []string{}
	for _, operation := range history {
		key := keyOf(operation.Input)
		if _, known := parts[key]; !known {
			order = append(order, key)
		}
		parts[key] = append(parts[key], operation)
	}
	split := [][]porcupine.Operation{}
	for _, key := range order {
		split = append(split, parts[key])
	}
	return split
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// appended never shares its array with the state before it.
func appended(state []int, value int) []int {
	return append(state[:len(state):len(state)], value)
}

func place(state []int, value int) int {
	at := 0
	for at < len(state) && state[at] < value {
		at++
	}
	return at
}

func inserted(state []int, at, value int) []int {
	after := make([]int, 0, len(state)+1)
	after = append(after, state[:at]...)
	after = append(after, value)
	return append(after, state[at:]...)
}

// stepSequence is the step of all objects whose state is a list of numbers.
func stepSequence(object string, state []int, call request, out answer) (bool, []int) {
	size := len(state)
	switch call.f {
	case "write", "put":
		return true, []int{call.argument[0]}
	case "append":
		if object == "append-log" && out.known && out.values[0] != size {
			return false, state
		}
		return true, appended(state, call.argument[0])
	case "enqueue", "push":
		return true, appended(state, call.argument[0])
	case "insert":
		return true, inserted(state, place(state, call.argument[0]), call.argument[0])
	case "add":
		at := place(state, call.argument[0])
		if at < size && state[at] == call.argument[0] {
			return true, state
		}
		return true, inserted(state, at, call.argument[0])
	case "remove":
		at := place(state, call.argument[0])
		if at == size || state[at] != call.argument[0] {
			return true, state
		}
		return true, append(state[:at:at], state[at+1:]...)
	case "cas":
		matches := state[0] == call.argument[0]
		if out.known && (out.values[0] == 1) != matches {
			return false, state
		}
		if matches {
			return true, []int{call.argument[1]}
		}
		return true, state
	case "dequeue", "delete-min", "pop":
		if size == 0 {
			return !out.known || len(out.values) == 0, state
		}
		at, rest := 0, state[1:]
		if call.f == "pop" {
			at, rest = size-1, state[:size-1]
		}
		if out.known && (len(out.values) == 0 || out.values[0] != state[at]) {
			return false, state
		}
		return true, rest
	}
	if !out.known {
		return true, state
	}
	switch call.f {
	case "end":
		return out.values[0] == size, state
	case "contains":
		at := place(state, call.argument[0])
		return (out.values[0] == 1) == (at < size && state[at] == call.argument[0]), state
	}
	if object == "append-log" {
		start, stop := call.argument[0], call.argument[0]+len(out.values)
		if len(out.values) == 0 {
			return start >= size, state
		}
		return stop <= size && equal(state[start:stop], out.values), state
	}
	return equal(state, out.values), state
}

// text spells the values of a key-value store, whose state is a string.
func text(values []int) string {
	var builder strings.Builder
	for _, value := range values {
		builder.WriteString("x " + strconv.Itoa(value) + " y")
	}
	return builder.String()
}

type textRequest struct {
	key, f, value string
}

func generatedTextModel() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return "" },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			call := input.(textRequest)
			switch call.f {
			case "put":
				return true, call.value
			case "append":
				return true, state.(string) + call.value
			}
			return output == nil || output.(string) == state.(string), state
		},
	}
}

func generatedModel(object string) porcupine.Model {
	initial := []int{}
	if object == "register" {
		initial = []int{nothing}
	}
	return porcupine.Model{
		Partition: byKey,
		Init:      func() interface{} { return initial },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			fits, after := stepSequence(object, state.([]int), input.(request), output.(answer))
			return fits, after
		},
		Equal:         func(a, b interface{}) bool { return equal(a.([]int), b.([]int)) },
		DescribeState: func(state interface{}) string { return fmt.Sprint(state) },
	}
}
