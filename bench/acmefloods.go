package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// flood is what strangers do to an ACME server, until a context ends.
type flood struct {
	name string
	// connections are how many there are at a time, spread over so many addresses: the
	// server limits what one address may do.
	connections, addresses int
	// do uses one connection, and counts the requests that it sends.
	do func(context.Context, *tls.Conn, *stranger) error
	// plain floods begin no TLS.
	plain bool
}

// stranger is a client without an account.
type stranger struct {
	host string
	sent atomic.Int64
	// forged is a message for a new account whose signature is wrong.
	forged []byte
}

// floods are all floods. Each has as many connections as requests under way; in the last
// two, the clients themselves wait.
var floods = []flood{
	{name: "new-nonce", connections: 64, addresses: 64, do: func(ctx context.Context, c *tls.Conn, s *stranger) error {
		return s.ask(ctx, c, "HEAD /acme/bench/new-nonce HTTP/1.1\r\nHost: "+s.host+"\r\n\r\n", nil)
	}},
	{name: "forged signatures", connections: 64, addresses: 64, do: func(ctx context.Context, c *tls.Conn, s *stranger) error {
		return s.ask(ctx, c, s.header(len(s.forged)), s.forged)
	}},
	{name: "bodies that do not end", connections: 2000, addresses: 40, do: func(ctx context.Context, c *tls.Conn, s *stranger) error {
		s.sent.Add(1)
		_, err := io.WriteString(c, s.header(1000)+"{")
		for err == nil && sleep(ctx, time.Second) == nil {
			_, err = io.WriteString(c, " ")
		}
		return err
	}},
	{name: "10,000 connections", connections: 10000, addresses: 160, plain: true},
}

// header returns the header of a message for a new account.
func (s *stranger) header(length int) string {
	return fmt.Sprintf("POST /acme/bench/new-account HTTP/1.1\r\nHost: %s\r\nContent-Type: application/jose+json\r\nContent-Length: %d\r\n\r\n", s.host, length)
}

// ask sends the same request repeatedly, as fast as it is answered.
func (s *stranger) ask(ctx context.Context, c *tls.Conn, header string, body []byte) error {
	answers, request := bufio.NewReader(c), append([]byte(header), body...)
	of := &http.Request{Method: strings.Fields(header)[0]}
	for ctx.Err() == nil {
		s.sent.Add(1)
		if _, err := c.Write(request); err != nil {
			return err
		}
		answer, err := http.ReadResponse(answers, of)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil || answer.Close {
			return err
		}
	}
	return nil
}

func newStranger(external string) (*stranger, error) {
	at, err := url.Parse(external)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	text := base64.RawURLEncoding.EncodeToString
	protected, err := json.Marshal(map[string]any{
		"alg": "ES256", "nonce": strings.Repeat("A", 59), "url": external + "/acme/bench/new-account",
		"jwk": map[string]string{"kty": "EC", "crv": "P-256", "x": text(point[1:33]), "y": text(point[33:])},
	})
	if err != nil {
		return nil, err
	}
	forged, err := json.Marshal(map[string]string{"protected": text(protected), "payload": text([]byte("{}")), "signature": text(bytes.Repeat([]byte{1}, 64))})
	return &stranger{host: at.Host, forged: forged}, err
}

// floodEnv contains the name of a flood and the address of an ACME server: this program then
// acts as the strangers. In reality, these have their own machines; here they are a process
// that competes with this one for the processor.
const floodEnv = "CERTPLANE_BENCH_FLOOD"

// beStrangers floods a server until the other end of stdin is closed, and prints the number
// of requests or connections.
func beStrangers(ctx context.Context, text string, stdin io.Reader) error {
	name, external, _ := strings.Cut(text, "@")
	i := slices.IndexFunc(floods, func(f flood) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("unknown flood %q", name)
	}
	f := floods[i]
	s, err := newStranger(external)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for i := range f.connections {
		group.Go(func() {
			for ctx.Err() == nil {
				f.connect(ctx, s, net.IPv4(127, 0, 1+byte(i%f.addresses/250), 1+byte(i%f.addresses%250)))
				_ = sleep(ctx, time.Second)
			}
		})
	}
	_, _ = io.Copy(io.Discard, stdin)
	cancel()
	group.Wait()
	fmt.Println(s.sent.Load())
	return nil
}

// begin floods a server until the function that it returns is called, which returns how
// many requests or connections there were, and what CPU time these took the strangers.
func (f flood) begin(ctx context.Context, external string) (end func() (sent int64, cpu time.Duration, err error), err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	strangers := exec.CommandContext(ctx, "nice", "-n", "39", own)
	strangers.Env, strangers.Stderr = append(os.Environ(), floodEnv+"="+f.name+"@"+external), os.Stderr
	hold, err := strangers.StdinPipe()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	strangers.Stdout = &out
	if err := strangers.Start(); err != nil {
		return nil, err
	}
	return func() (sent int64, cpu time.Duration, err error) {
		hold.Close()
		if err := strangers.Wait(); err != nil {
			return 0, 0, fmt.Errorf("the strangers: %w", err)
		}
		_, err = fmt.Sscan(out.String(), &sent)
		return sent, strangers.ProcessState.UserTime() + strangers.ProcessState.SystemTime(), err
	}, nil
}

// connect uses one connection from an address until it is over.
func (f flood) connect(ctx context.Context, s *stranger, from net.IP) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Timeout: 10 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", s.host)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if f.plain {
		s.sent.Add(1)
		_, _ = io.Copy(io.Discard, c) // until the server has had enough
		return
	}
	encrypted := tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // it is our own server
	if encrypted.HandshakeContext(ctx) == nil {
		_ = f.do(ctx, encrypted, s)
	}
}
