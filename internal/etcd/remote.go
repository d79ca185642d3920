package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Remote is an etcd cluster that somebody else runs.
type Remote struct {
	// Servers are the URLs of its members.
	Servers []string
	// CAFile, CertFile and KeyFile are for TLS; each can be empty.
	CAFile, CertFile, KeyFile string
}

// Check returns nil as soon as one member answers, and the reasons of all
// members if none does before ctx ends.
func (r Remote) Check(ctx context.Context) error {
	tlsInfo := transport.TLSInfo{TrustedCAFile: r.CAFile, CertFile: r.CertFile, KeyFile: r.KeyFile}
	tlsConfig, err := tlsInfo.ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the TLS files for etcd: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: r.Servers, TLS: tlsConfig, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("making a client for etcd at %s: %w", strings.Join(r.Servers, ", "), err)
	}
	defer client.Close()

	answers := make(chan error, len(r.Servers))
	for _, server := range r.Servers {
		go func() {
			_, err := client.Status(ctx, server)
			answers <- err
		}()
	}
	var failures []error
	for range r.Servers {
		err := <-answers
		if err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return fmt.Errorf("reaching etcd at %s: %w", strings.Join(r.Servers, ", "), errors.Join(failures...))
}
