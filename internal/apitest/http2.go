package apitest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/client-go/rest"
)

// HTTP2 is a connection of a client that accepts no data of any answer (its
// window is 0), and sends those parts of its requests that the test wants. It
// is safe for concurrent use.
type HTTP2 struct {
	conn  *tls.Conn
	token string // empty if there is none

	streams sync.Map // of *Stream, by number

	mu      sync.Mutex // guards all below, and writing
	framer  *http2.Framer
	next    uint32
	window  int       // how much the server still takes
	initial int       // the window of a new stream
	changed sync.Cond // of a window, or a stream has ended
}

// Stream is one request of such a client.
type Stream struct {
	conn   *HTTP2
	id     uint32
	window int // guarded by conn.mu
	// Status delivers the status of the answer, once.
	Status chan string
	// Reset is closed when the server has ended the stream without all of the
	// answer, or the connection.
	Reset chan struct{}
	reset func()
}

// initialWindow is the initial window of streams and connections (RFC 9113 section 6.9.2).
const initialWindow = 1<<16 - 1

// DialHTTP2 connects with the configuration cfg.
func DialHTTP2(ctx context.Context, cfg *rest.Config) (*HTTP2, error) {
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the client's configuration: %w", err)
	}
	config = config.Clone()
	config.ServerName, config.NextProtos = "localhost", []string{http2.NextProtoTLS}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	raw, err := dial(ctx, "tcp", strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c := &HTTP2{conn: tls.Client(raw, config), token: cfg.BearerToken, next: 1, window: initialWindow, initial: initialWindow}
	c.changed.L = &c.mu
	c.framer = http2.NewFramer(c.conn, c.conn)
	if err := errors.Join(c.conn.HandshakeContext(ctx), c.greet()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go c.read()
	return c, nil
}

func (c *HTTP2) greet() error {
	if _, err := c.conn.Write([]byte(http2.ClientPreface)); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
}

// Close ends the connection.
func (c *HTTP2) Close() error { return c.conn.Close() }

// read answers the server's frames and notifies streams of their answers and
// ends.
func (c *HTTP2) read() {
	defer c.streams.Range(func(_, stream any) bool { stream.(*Stream).reset(); return true })
	decoder := hpack.NewDecoder(4096, nil)
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = c.agree(frame)
			}
		case *http2.WindowUpdateFrame:
			c.widen(frame)
		case *http2.HeadersFrame:
			fields, _ := decoder.DecodeFull(frame.HeaderBlockFragment())
			if stream, known := c.streams.Load(frame.StreamID); known && len(fields) > 0 {
				stream.(*Stream).Status <- fields[0].Value
			}
		case *http2.RSTStreamFrame:
			if stream, known := c.streams.LoadAndDelete(frame.StreamID); known {
				stream.(*Stream).reset()
			}
		}
		if err != nil {
			return
		}
	}
}

// agree applies the settings of the server, which come before any stream.
func (c *HTTP2) agree(frame *http2.SettingsFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size, known := frame.Value(http2.SettingInitialWindowSize); known {
		c.streams.Range(func(_, stream any) bool { stream.(*Stream).window += int(size) - c.initial; return true })
		c.initial = int(size)
		c.changed.Broadcast()
	}
	return c.framer.WriteSettingsAck()
}

func (c *HTTP2) widen(frame *http2.WindowUpdateFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if frame.StreamID == 0 {
		c.window += int(frame.Increment)
	} else if stream, known := c.streams.Load(frame.StreamID); known {
		stream.(*Stream).window += int(frame.Increment)
	}
	c.changed.Broadcast()
}

// Open begins a request; header has pairs of names and values. Send sends the body, if the
// request has one.
func (c *HTTP2) Open(method, path string, hasBody bool, header ...string) (*Stream, error) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	pairs := append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path}, header...)
	if c.token != "" {
		pairs = append(pairs, "authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(pairs); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", pairs[i], err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Stream{conn: c, id: c.next, window: c.initial, Status: make(chan string, 2), Reset: make(chan struct{})}
	s.reset = sync.OnceFunc(func() {
		close(s.Reset)
		c.changed.Broadcast()
	})
	c.next += 2
	c.streams.Store(s.id, s)
	return s, c.writeHeaders(s.id, block.Bytes(), !hasBody)
}

// maxFrame is what every server takes in one frame.
const maxFrame = 16 << 10

func (c *HTTP2) writeHeaders(id uint32, block []byte, endStream bool) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(startTimeout))
	first := block[:min(len(block), maxFrame)]
	rest := block[len(first):]
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: endStream, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		piece := rest[:min(len(rest), maxFrame)]
		rest = rest[len(piece):]
		err = c.framer.WriteContinuation(id, len(rest) == 0, piece)
	}
	return err
}

// Send sends a part of the body, which is not its last. It returns when all has
// been sent, or the stream has ended.
func (s *Stream) Send(data []byte) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(data) > 0 {
		for s.window <= 0 || c.window <= 0 {
			if s.ended() {
				return nil
			}
			c.changed.Wait()
		}
		piece := data[:min(len(data), maxFrame, s.window, c.window)]
		data = data[len(piece):]
		s.window -= len(piece)
		c.window -= len(piece)
		_ = c.conn.SetWriteDeadline(time.Now().Add(startTimeout))
		if err := c.framer.WriteData(s.id, false, piece); err != nil {
			return fmt.Errorf("sending a part of a body: %w", err)
		}
	}
	return nil
}

func (s *Stream) ended() bool {
	select {
	case <-s.Reset:
		return true
	default:
		return false
	}
}
