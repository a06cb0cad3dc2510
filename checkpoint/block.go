package checkpoint

// Alignment is where a Block begins: XLA's CPU plugin takes host memory without
// a copy at 64 bytes.
const Alignment = 64

// hugePage is the size of a huge page where the system has them.
const hugePage = 2 << 20

// Block is memory outside the collector's heap that has never been touched: the
// destination of a Read. It lives until Free: whoever hands its bytes to a device
// buffer frees it when the device is done.
type Block struct {
	data    []byte
	mapping []byte // what is unmapped; nil if data is the collector's
}

// Alloc makes a block of n zero bytes, aligned to Alignment at least. No page of
// it is in memory before it is written to.
func Alloc(n int) (*Block, error) { return allocBlock(n) }

// Bytes is the memory. It must not be used after Free.
func (b *Block) Bytes() []byte { return b.data }

// Free gives the memory back. Freeing twice, or nil, is nothing.
func (b *Block) Free() error {
	if b == nil {
		return nil
	}
	mapping := b.mapping
	b.data, b.mapping = nil, nil
	return unmapMemory(mapping)
}
