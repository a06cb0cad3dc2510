package service

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"weft/fault"
)

// Limits bound what clients may ask for. The zero value of a field takes DefaultLimits'.
type Limits struct {
	BodyBytes   int64 // of a request
	ImageBytes  int64 // of one picture's file
	ImagePixels int   // width times height of a picture, which its header says
	PromptBytes int64 // of each prompt
	TextBytes   int64 // of a text in a form
	Seconds     float64
	// RatePerSecond and Burst are how many requests one client may send.
	RatePerSecond float64
	Burst         int
	// Streams is how many event streams one client may have open, AllStreams how many there may be.
	Streams, AllStreams int
	// Uploads is how many bodies of one client, and AllUploads of all, are read at a time.
	Uploads, AllUploads int
	// ReadTime is for how long a body may take to come, and StallTime for how long a client may
	// take nothing of an answer.
	ReadTime, StallTime time.Duration
}

// DefaultLimits are those where nothing is said. Seconds 0 is no limit.
var DefaultLimits = Limits{
	BodyBytes: 48 << 20, ImageBytes: 16 << 20, ImagePixels: 40_000_000, PromptBytes: 16 << 10, TextBytes: 64 << 10,
	RatePerSecond: 200, Burst: 1000, Streams: 32, AllStreams: 2048, Uploads: 8, AllUploads: 64,
	ReadTime: time.Minute, StallTime: 30 * time.Second,
}

// orDefaults fills in what is left out.
func (l Limits) orDefaults() Limits {
	d := DefaultLimits
	fill(&l.BodyBytes, d.BodyBytes)
	fill(&l.ImageBytes, d.ImageBytes)
	fill(&l.ImagePixels, d.ImagePixels)
	fill(&l.PromptBytes, d.PromptBytes)
	fill(&l.TextBytes, d.TextBytes)
	fill(&l.RatePerSecond, d.RatePerSecond)
	fill(&l.Burst, d.Burst)
	fill(&l.Streams, d.Streams)
	fill(&l.AllStreams, d.AllStreams)
	fill(&l.Uploads, d.Uploads)
	fill(&l.AllUploads, d.AllUploads)
	fill(&l.ReadTime, d.ReadTime)
	fill(&l.StallTime, d.StallTime)
	return l
}

func fill[T comparable](at *T, preset T) {
	if zero := *new(T); *at == zero {
		*at = preset
	}
}

// rates limits how often each client asks.
type rates struct {
	per   rate.Limit
	burst int

	mu      sync.Mutex
	clients map[string]*clientRate
	swept   time.Time
}

type clientRate struct {
	*rate.Limiter
	last time.Time
}

// forgetAfter is for how long a client that asks nothing is remembered. By then its allowance is
// full again, so that forgetting it changes nothing.
const forgetAfter = 10 * time.Minute

func newRates(l Limits) *rates {
	return &rates{per: rate.Limit(l.RatePerSecond), burst: l.Burst, clients: map[string]*clientRate{}}
}

// take counts a request of a client. Error: ErrRate.
func (r *rates) take(client string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) > forgetAfter/2 {
		for name, c := range r.clients {
			if now.Sub(c.last) > forgetAfter {
				delete(r.clients, name)
			}
		}
		r.swept = now
	}
	c := r.clients[client]
	if c == nil {
		c = &clientRate{Limiter: rate.NewLimiter(r.per, r.burst)}
		r.clients[client] = c
	}
	c.last = now
	if !c.AllowN(now, 1) {
		return fault.New(ErrRate, Busy{1 / float64(r.per)}, "more than %d requests at once and %g a second from one client", r.burst, float64(r.per))
	}
	return nil
}

// slots limits what clients have open at a time.
type slots struct {
	what      string
	each, all int

	mu    sync.Mutex
	held  map[string]int
	total int
}

// take takes a slot, which release gives back. Error: ErrRate.
func (s *slots) take(client string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[client] >= s.each || s.total >= s.all {
		return nil, fault.New(ErrRate, Busy{1}, "%d %s of one client, and %d of all, are open at a time", s.each, s.what, s.all)
	}
	if s.held == nil {
		s.held = map[string]int{}
	}
	s.held[client]++
	s.total++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[client]--; s.held[client] == 0 {
			delete(s.held, client)
		}
		s.total--
	}, nil
}

// patientWriter ends the connection of a client that takes nothing for a while, however long the
// whole answer takes.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

func (s *Server) patient(w http.ResponseWriter) *patientWriter {
	return &patientWriter{w, http.NewResponseController(w), s.o.Limits.StallTime}
}

// Write gives the client time for each part.
func (p *patientWriter) Write(b []byte) (int, error) {
	// Recorders of tests have no deadlines.
	_ = p.control.SetWriteDeadline(time.Now().Add(p.stall))
	return p.ResponseWriter.Write(b)
}
