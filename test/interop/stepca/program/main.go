// Command program runs step-ca's API with one provisioner, whose tokens permit
// one certificate each. The benchmark measures it beside certplane. The database
// is the kind that "step ca init" configures; it syncs every write to disk.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/go-chi/chi/v5"
	"github.com/smallstep/certificates/api"
	"github.com/smallstep/certificates/authority"
	"github.com/smallstep/certificates/authority/config"
	"github.com/smallstep/certificates/authority/provisioner"
	"github.com/smallstep/certificates/db"
	"github.com/smallstep/nosql"
	"go.step.sm/crypto/jose"
	"go.step.sm/crypto/minica"
)

// access is how the API is reached: everything that a client needs.
type access struct {
	URL string `json:"url"`
	// Roots are of its HTTPS certificate, as PEM.
	Roots string `json:"roots"`
	// Provisioner signs its tokens with Key.
	Provisioner string           `json:"provisioner"`
	Key         *jose.JSONWebKey `json:"key"`
}

func main() {
	dir := flag.String("dir", "", "The folder for the database, and for the file access.json, which says how the API is reached.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir); err != nil {
		log.Fatalf("step-ca: %v", err)
	}
}

const provisionerName = "bench"

func run(ctx context.Context, dir string) error {
	keys, err := minica.New()
	if err != nil {
		return err
	}
	token, err := jose.GenerateJWK("EC", "P-256", jose.ES256, "sig", "", 0)
	if err != nil {
		return err
	}
	public := token.Public()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	store, err := db.New(&db.Config{Type: nosql.BadgerV2Driver, DataSource: filepath.Join(dir, "db")})
	if err != nil {
		return err
	}
	ca, err := authority.NewEmbedded(
		authority.WithConfig(&config.Config{
			DNSNames:        []string{"127.0.0.1"},
			Address:         listener.Addr().String(),
			AuthorityConfig: &config.AuthConfig{Provisioners: provisioner.List{&provisioner.JWK{Type: "JWK", Name: provisionerName, Key: &public}}},
		}),
		authority.WithDatabase(store), authority.WithX509RootCerts(keys.Root),
		authority.WithX509Signer(keys.Intermediate, keys.Signer), authority.WithQuietInit(),
	)
	if err != nil {
		return err
	}
	serving, err := ca.GetTLSCertificate()
	if err != nil {
		return err
	}
	routes := chi.NewRouter()
	routes.Route("/1.0", func(r chi.Router) { api.Route(r) })
	server := &http.Server{
		Handler:     routes,
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{*serving}},
		BaseContext: func(net.Listener) context.Context { return authority.NewContext(context.Background(), ca) },
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := announce(dir, access{"https://" + listener.Addr().String(), encode(keys.Root), provisionerName, token}); err != nil {
		return err
	}
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ca.Shutdown()
}

func encode(crt *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: crt.Raw}))
}

// announce writes access.json, which is complete once it exists.
func announce(dir string, how access) error {
	text, err := json.Marshal(how)
	if err != nil {
		return fmt.Errorf("encoding access.json: %w", err)
	}
	file := filepath.Join(dir, "access.json")
	return errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file))
}
