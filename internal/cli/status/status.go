// Package status tells how a Certificate of cert-manager.io is, and what is on
// its way for it.
package status

import (
	"context"
	"fmt"
	"io"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/cli/output"
)

// Config says of which Certificate, and to whom.
type Config struct {
	Namespace, Name string
	// Certplane is how the user calls this program for the same server.
	Certplane []string
	// Output is json or yaml; empty: text for people.
	Output string
	Now    func() time.Time
	Stdout io.Writer
}

// Certificate tells how a Certificate is. Its errors are those of not knowing.
func Certificate(ctx context.Context, c client.Client, cfg Config) error {
	f, err := gather(ctx, c, cfg)
	if err != nil {
		return err
	}
	return output.Write(cfg.Stdout, cfg.Output, f.report(), f.text)
}

// Connect returns a client for what this package and its neighbours read. It
// asks the server nothing yet.
func Connect(cfg *rest.Config) (client.Client, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanager.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, fmt.Errorf("making the scheme: %w", err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{cmv1.CertificateKind, cmv1.CertificateRequestKind, cmv1.IssuerKind} {
		mapper.Add(cmv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(cmv1.SchemeGroupVersion.WithKind(cmv1.ClusterIssuerKind), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	connected, err := client.New(cfg, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}
