package checkpoint

// Alignment is where a Block begins: XLA's CPU plugin takes host memory without
// a copy at 64 bytes.
const Alignment = 64

// hugePage is the size of a huge page where the system has them.
const hugePage = 2 << 20

// Block is memory outside the garbage collector's heap, for Read to fill. It lives
// until Free: the caller who hands its bytes to a device buffer frees it when the
// device has finished with them.
type Block struct {
	data    []byte
	mapping []byte // the whole mapping, which Free unmaps; nil if data is on the heap
}

// Alloc makes a block of n zero bytes, aligned to Alignment at least. Its pages take
// memory only once they are written to.
func Alloc(n int) (*Block, error) { return allocBlock(n) }

// Bytes gives the memory. It must not be used after Free.
func (b *Block) Bytes() []byte { return b.data }

// Free gives the memory back. To free a block twice, or nil, does nothing.
func (b *Block) Free() error {
	if b == nil {
		return nil
	}
	mapping := b.mapping
	b.data, b.mapping = nil, nil
	return unmapMemory(mapping)
}
