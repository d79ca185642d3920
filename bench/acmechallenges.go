package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
)

// challengeAnswers answers http-01 challenges for all names, and is the DNS server that maps
// all names to this host.
type challengeAnswers struct {
	// resolver is the address of the DNS server, port the port of http-01.
	resolver string
	port     int
	// thumbprints maps tokens to the thumbprints of accounts.
	thumbprints sync.Map
	stop        func() error
}

func startAnswers() (*challengeAnswers, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	packets, streams, err := dnstest.Listen("127.0.0.1", "0")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	c := &challengeAnswers{resolver: packets.LocalAddr().String(), port: listener.Addr().(*net.TCPAddr).Port}
	web := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	names := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(answerName)}
	namesByTCP := &dns.Server{Listener: streams, Handler: dns.HandlerFunc(answerName)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(listener) })
	serving.Go(func() { _ = names.ActivateAndServe() })
	serving.Go(func() { _ = namesByTCP.ActivateAndServe() })
	c.stop = func() error {
		err := errors.Join(web.Shutdown(context.Background()), names.Shutdown(), namesByTCP.Shutdown())
		serving.Wait()
		return err
	}
	return c, nil
}

func (c *challengeAnswers) set(token, thumbprint string) { c.thumbprints.Store(token, thumbprint) }
func (c *challengeAnswers) drop(token string)            { c.thumbprints.Delete(token) }

// ServeHTTP answers a challenge (RFC 8555 section 8.3).
func (c *challengeAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.URL.Path, "/.well-known/acme-challenge/")
	thumbprint, ok := c.thumbprints.Load(token)
	if !ok {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, "%s.%s", token, thumbprint)
}

func answerName(w dns.ResponseWriter, asked *dns.Msg) {
	answer := new(dns.Msg).SetReply(asked)
	for _, q := range asked.Question {
		if q.Qtype == dns.TypeA {
			answer.Answer = append(answer.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(127, 0, 0, 1),
			})
		}
	}
	_ = w.WriteMsg(answer)
}
