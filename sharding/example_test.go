package sharding_test

import (
	"fmt"

	"weft/mesh"
	"weft/sharding"
)

// A device's part of a weight that is split over tp.
func ExampleSpec_Ranges() {
	m, _ := mesh.Local(mesh.Axis{Name: "dp", Size: 2}, mesh.Axis{Name: "tp", Size: 4})
	s, _ := sharding.ParseSpec("[tp,-]")
	ranges, _ := s.Ranges(m, []int{5120, 5120}, 6)
	fmt.Println(ranges)
	_, err := s.Ranges(m, []int{5121, 5120}, 6)
	fmt.Println(err)
	// Output:
	// [2560-3840 0-5120]
	// dim 0 of size 5121 does not divide into 4 parts over tp; nearest sizes 5120 and 5124
}

// From tokens split over sp to heads split over sp, as Ulysses attention does,
// and a sum over tp that leaves the tokens split.
func ExampleReshard() {
	m, _ := mesh.Local(mesh.Axis{Name: "tp", Size: 2}, mesh.Axis{Name: "sp", Size: 4})
	show := func(from, to string, shape ...int) {
		f, _ := sharding.ParseSpec(from)
		t, _ := sharding.ParseSpec(to)
		steps, err := sharding.Reshard(m, f, t, shape, 2)
		fmt.Println(steps, err)
	}
	show("[-,sp,tp,-]", "[-,-,tp+sp,-]", 1, 32768, 40, 128)
	show("[-,sp,-]|tp", "[-,sp+tp,-]", 1, 32768, 5120)
	show("[-,sp,-]", "[-,sp,-]|tp", 1, 32768, 5120)
	// Output:
	// [all-to-all dim 1 to dim 2 over sp: [-,sp,tp,-] -> [-,-,tp+sp,-], 31457280 bytes] <nil>
	// [reduce-scatter dim 1 over tp: [-,sp,-]|tp -> [-,sp+tp,-], 41943040 bytes] <nil>
	// [] [-,sp,-] cannot become [-,sp,-]|tp: axis tp is partial only in the second, and the sum would count the tensor 2 times; leave tp out of the partial axes
}
