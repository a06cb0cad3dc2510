package request_test

import (
	"encoding/json"
	"fmt"

	"weft/request"
)

func ExampleParse() {
	r, err := request.Parse(request.Text{"size": "832x480", "frames": "81", "on": "v4-8", "mesh": "tp=4", "dtype": "bf16"})
	fmt.Println(r, err)
	b, _ := json.Marshal(r)
	fmt.Println(string(b))

	_, err = request.Parse(request.Text{"mesh": "tp4", "dtype": "int4"})
	fmt.Println(err)
	// Output:
	// --size 832x480 --frames 81 --on v4-8 --mesh tp=4 --dtype bf16 <nil>
	// {"dtype":"bf16","frames":81,"mesh":"tp=4","on":"v4-8","size":"832x480"}
	// dtype "int4": want bf16 or f32
	// "tp4" in mesh "tp4" is not an axis; write name=size with a whole number, as in dp=1,tp=4,sp=2
}
