package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Remote is the configuration of an etcd's client.
type Remote struct {
	// Servers are the URLs of its members.
	Servers []string
	// CAFile, CertFile and KeyFile are for TLS; each can be empty.
	CAFile, CertFile, KeyFile string
}

// Local returns the etcd that another process of this host runs on dir, with
// the address that Start gives it there. It need not run.
func Local(dir string) (Remote, error) {
	socket, err := filepath.Abs(filepath.Join(dir, socketName))
	if err != nil {
		return Remote{}, fmt.Errorf("resolving the etcd directory: %w", err)
	}
	if elsewhere, err := os.Readlink(socket); err == nil { // the path is too long for a socket
		socket = elsewhere
	}
	endpoint := url.URL{Scheme: "unix", Path: socket}
	return Remote{Servers: []string{endpoint.String()}}, nil
}

// Check returns nil as soon as one member answers. If none does before ctx
// ends, it returns the errors of all members.
func (r Remote) Check(ctx context.Context) error {
	client, err := r.Connect()
	if err != nil {
		return err
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

// CreateOnce stores value under key unless the key exists, and returns the
// value that is stored there afterwards.
func (r Remote) CreateOnce(ctx context.Context, key, value string) (stored string, err error) {
	client, err := r.Connect()
	if err != nil {
		return "", err
	}
	defer client.Close()
	answer, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return "", fmt.Errorf("storing %s in etcd: %w", key, err)
	}
	if answer.Succeeded {
		return value, nil
	}
	return string(answer.Responses[0].GetResponseRange().Kvs[0].Value), nil
}

// Connect returns a new client, which the caller closes. It does not wait for
// etcd to answer.
func (r Remote) Connect() (*clientv3.Client, error) {
	cfg := clientv3.Config{Endpoints: r.Servers, Logger: zap.NewNop()}
	// The Unix socket of the etcd inside a server has no TLS.
	if !strings.HasPrefix(r.Servers[0], "unix:") {
		tlsInfo := transport.TLSInfo{TrustedCAFile: r.CAFile, CertFile: r.CertFile, KeyFile: r.KeyFile}
		var err error
		if cfg.TLS, err = tlsInfo.ClientConfig(); err != nil {
			return nil, fmt.Errorf("reading the TLS files for etcd: %w", err)
		}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for etcd at %s: %w", strings.Join(r.Servers, ", "), err)
	}
	return client, nil
}
