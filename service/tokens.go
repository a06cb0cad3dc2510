package service

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// ErrTokenFile: a file of tokens that cannot be one.
var ErrTokenFile = fault.NewKind("token-file")

// Tokens are those whose bearers are served. Only their hashes are kept.
type Tokens struct{ list []token }

type token struct {
	hash     [sha256.Size]byte
	session  [sha256.Size]byte // of the cookie's value
	owner    string
	operator bool
}

const (
	// maxTokenFile bounds the file: a line for each token.
	maxTokenFile = 1 << 20
	// minToken is how long a token is at least: 20 characters of 6 bits cannot be guessed.
	minToken = 20
	maxToken = 512
)

var ownerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ReadTokens reads a file with a token on each line:
//
//	NAME TOKEN
//	NAME TOKEN operator
//	NAME sha256:HEX
//
// NAME is whose token it is; its videos are seen with this name's tokens alone. An operator sees
// all videos, may pause the queue and ask for a high priority. The third form has the token's
// hash, so that the file keeps no secret. Empty lines and those that begin with # are passed over.
// Errors, all at once: ErrTokenFile, and those of userfile.Read.
func ReadTokens(path string) (*Tokens, error) {
	raw, err := userfile.Read(path, maxTokenFile)
	if err != nil {
		return nil, err
	}
	return parseTokens(path, raw)
}

func parseTokens(path string, raw []byte) (*Tokens, error) {
	t := &Tokens{}
	var errs fault.List
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, maxTokenFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		refuse := func(format string, args ...any) {
			errs.Add(fault.New(ErrTokenFile, nil, "%s, line %d: %s", printable.Text(path), n, printable.Sprintf(format, args...)))
		}
		words := strings.Fields(line)
		if len(words) < 2 || len(words) > 3 || len(words) == 3 && words[2] != "operator" {
			refuse("want NAME TOKEN, or NAME TOKEN operator")
			continue
		}
		if !ownerName.MatchString(words[0]) {
			refuse("name %q: want letters, digits, dots, dashes, at most 64", words[0])
		}
		one := token{owner: words[0], operator: len(words) == 3}
		if !one.setSecret(words[1]) {
			refuse("the token of %s: want %d to %d characters of ASCII, or sha256: and 64 hexadecimal digits", words[0], minToken, maxToken)
			continue
		}
		for _, other := range t.list {
			if other.hash == one.hash {
				refuse("the token of %s is the one of %s", words[0], other.owner)
			}
		}
		t.list = append(t.list, one)
	}
	errs.Add(lines.Err())
	if len(t.list) == 0 && errs.Err() == nil {
		errs.Add(fault.New(ErrTokenFile, nil, "%s has no tokens: want a line NAME TOKEN for each", printable.Text(path)))
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// setSecret takes a token, or its hash.
func (t *token) setSecret(text string) bool {
	if digits, isHash := strings.CutPrefix(text, "sha256:"); isHash {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != sha256.Size {
			return false
		}
		copy(t.hash[:], b)
	} else {
		if len(text) < minToken || len(text) > maxToken || strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return false
		}
		t.hash = sha256.Sum256([]byte(text))
	}
	t.session = sha256.Sum256([]byte(t.cookie()))
	return true
}

// cookie is the value of the cookie that stands for the token in a browser. It does not tell the
// token, and is the same in every process that has the file.
func (t *token) cookie() string {
	mac := hmac.New(sha256.New, t.hash[:])
	mac.Write([]byte("weft session"))
	return hex.EncodeToString(mac.Sum(nil))
}

// find looks a secret up among all tokens in a time that does not depend on it: hashes are
// compared, each to its end, and all of them.
func (t *Tokens) find(secret string, hashOf func(*token) *[sha256.Size]byte) *token {
	sum := sha256.Sum256([]byte(secret))
	var found *token
	for i := range t.list {
		if subtle.ConstantTimeCompare(sum[:], hashOf(&t.list[i])[:]) == 1 {
			found = &t.list[i]
		}
	}
	return found
}

// sessionCookie is the name of the cookie.
const sessionCookie = "weft_session"

// ofRequest finds whose token a request has: as Authorization: Bearer, or the page's cookie.
func (t *Tokens) ofRequest(r *http.Request) *token {
	if scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return t.find(strings.TrimSpace(secret), func(t *token) *[sha256.Size]byte { return &t.hash })
	}
	if c, err := r.Cookie(sessionCookie); err == nil {
		return t.find(c.Value, func(t *token) *[sha256.Size]byte { return &t.session })
	}
	return nil
}

// Session says who asks.
type Session struct {
	Tokens   bool   `json:"tokens" doc:"whether the service wants tokens at all"`
	Owner    string `json:"owner"`
	Operator bool   `json:"operator"`
}

// serveSession says who asks. Without a token, where one is wanted, the answer is 401.
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request) error {
	who := callerOf(r)
	writeJSON(w, http.StatusOK, Session{s.o.Tokens != nil, who.owner, who.operator})
	return nil
}

// serveLogin gives a browser the cookie of the token that it sends, because pages cannot send a
// token for a picture, a video or a stream of events.
func (s *Server) serveLogin(w http.ResponseWriter, r *http.Request) error {
	if s.o.Tokens != nil {
		if t := s.o.Tokens.ofRequest(r); t != nil {
			http.SetCookie(w, s.cookie(r, t.cookie(), 0))
		}
	}
	return s.serveSession(w, r)
}

// serveLogout takes the cookie away.
func (s *Server) serveLogout(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.cookie(r, "", -1))
	writeJSON(w, http.StatusOK, Session{Tokens: s.o.Tokens != nil})
	return nil
}

func (s *Server) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	secure := r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://") // behind a proxy
	return &http.Cookie{Name: sessionCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}
