package hlo

import "fmt"

// Call is a custom call in a module's entry.
type Call struct {
	Name string
	// Made lists the opcodes of the instructions that make its operands, in order.
	Made []string
}

// Calls lists the entry's custom calls of a target. Where an operand is made by a bitcast
// or is an element of a tuple, Made has the opcode of the instruction before those. code
// is as in Collectives.
func Calls(code []byte, target string) ([]Call, error) {
	var module message
	if err := module.parse(code); err != nil {
		return nil, err
	}
	if err := module.parse(module.bytes(1)); err != nil {
		return nil, err
	}
	for _, b := range module.all[3] {
		c, err := readComputation(b.b)
		if err != nil {
			return nil, err
		}
		if c.id == module.number(6) {
			return c.customCalls(target)
		}
	}
	return nil, fmt.Errorf("hlo: no entry computation")
}

// customCalls lists the custom calls of a target in one computation.
func (c *computation) customCalls(target string) ([]Call, error) {
	var found []Call
	for _, in := range c.instr {
		if in.op != "custom-call" || string(in.bytes(28)) != target {
			continue
		}
		call := Call{Name: in.name}
		for _, id := range in.allNumbers(36) {
			made := c.byID[localID(id)]
			for range maxDepth {
				if made == nil || made.op != "bitcast" && made.op != "get-tuple-element" || len(made.allNumbers(36)) == 0 {
					break
				}
				made = c.byID[localID(made.allNumbers(36)[0])]
			}
			if made == nil {
				return nil, fmt.Errorf("hlo: operand %d of %s is not in its computation", id, in.name)
			}
			call.Made = append(call.Made, made.op)
		}
		found = append(found, call)
	}
	return found, nil
}
