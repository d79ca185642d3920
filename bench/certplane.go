package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// configuration is the default one without the cleaner, which would not let one
// user have as many requests as are measured, and without other controllers.
// Kubernetes' cleaner does not run either.
func configuration(without ...string) string {
	choice := []string{"*", "-clean"}
	for _, name := range without {
		choice = append(choice, "-"+name)
	}
	return fmt.Sprintf(`
apiVersion: config.certplane.dev/v1alpha1
kind: ServerConfiguration
controllers: ["%s"]
`, strings.Join(choice, `", "`))
}

// startCertplane returns when the server has written its kubeconfig, which
// means that it is ready.
func startCertplane(ctx context.Context, opts options) (*system, error) {
	return startConfigured(ctx, opts, configuration())
}

func startConfigured(ctx context.Context, opts options, configuration string) (*system, error) {
	return startSystem(threeStepSystem, func(s *system) error {
		s.metrics = true
		if err := os.WriteFile(filepath.Join(s.dir, "server.yaml"), []byte(configuration), 0o600); err != nil {
			return err
		}
		return s.serve(ctx, opts, "127.0.0.1:0")
	})
}

// serve starts the server in its folder.
func (s *system) serve(ctx context.Context, opts options, listen string) error {
	begin := time.Now()
	if err := s.start(opts.certplane, "serve", "--config", "server.yaml", "--data-dir", "data", "--listen", listen); err != nil {
		return err
	}
	kubeconfig := filepath.Join(s.dir, "data", "admin.kubeconfig")
	err := s.await(ctx, "certplane is ready", func(context.Context) bool {
		_, err := os.Stat(kubeconfig)
		return err == nil
	})
	if err != nil {
		return err
	}
	s.startup = time.Since(begin)
	s.admin, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	return err
}

// restartCertplane kills the server and starts it again at the same address.
func (s *system) restartCertplane(ctx context.Context, opts options) error {
	return s.again(ctx, opts, (*process).kill)
}

// again ends the server in one way or another, and starts it again at the same
// address.
func (s *system) again(ctx context.Context, opts options, end func(*process) error) error {
	at, err := url.Parse(s.admin.Host)
	if err != nil {
		return err
	}
	for _, p := range s.processes {
		if err := end(p); err != nil {
			return err
		}
	}
	s.processes = nil
	if err := os.Remove(filepath.Join(s.dir, "data", "admin.kubeconfig")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return s.serve(ctx, opts, at.Host)
}
