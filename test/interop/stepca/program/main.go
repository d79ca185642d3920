// Command program runs step-ca's API with two provisioners: one whose tokens permit
// one certificate each, and one for ACME. The benchmark measures it beside certplane.
// The database is the kind that "step ca init" configures; it syncs every write to
// disk.
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
	"github.com/smallstep/certificates/acme"
	acmeapi "github.com/smallstep/certificates/acme/api"
	acmedb "github.com/smallstep/certificates/acme/db/nosql"
	"github.com/smallstep/certificates/api"
	"github.com/smallstep/certificates/authority"
	"github.com/smallstep/certificates/authority/config"
	"github.com/smallstep/certificates/authority/provisioner"
	"github.com/smallstep/certificates/db"
	"github.com/smallstep/nosql"
	"go.step.sm/crypto/jose"
	"go.step.sm/crypto/minica"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// access contains the data that clients need to reach the API.
type access struct {
	URL string `json:"url"`
	// Directory is the URL of the ACME provisioner's directory.
	Directory string `json:"directory"`
	// Roots verify its HTTPS certificate, as PEM.
	Roots string `json:"roots"`
	// Provisioner is the name of the provisioner whose tokens Key signs.
	Provisioner string           `json:"provisioner"`
	Key         *jose.JSONWebKey `json:"key"`
}

func main() {
	dir := flag.String("dir", "", "Folder for the database, and for the file access.json, with the address and roots of the API.")
	flag.IntVar(&acme.InsecurePortHTTP01, "http-port", 0, "Port where ACME clients answer http-01 challenges. 0 means the standard port, 80.")
	resolver := flag.String("resolver", "", "DNS server, as HOST:PORT. The default is the system's.")
	flag.Parse()
	if *resolver != "" {
		net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *resolver)
		}}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir); err != nil {
		log.Fatalf("step-ca: %v", err)
	}
}

// The names of the provisioners.
const (
	provisionerName = "bench"
	acmeName        = "acme"
)

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
			DNSNames: []string{"127.0.0.1"},
			Address:  listener.Addr().String(),
			AuthorityConfig: &config.AuthConfig{Provisioners: provisioner.List{
				&provisioner.JWK{Type: "JWK", Name: provisionerName, Key: &public}, &provisioner.ACME{Type: "ACME", Name: acmeName},
			}},
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
	orders, err := acmedb.New(ca.GetDatabase().(nosql.DB))
	if err != nil {
		return err
	}
	routes.Route("/acme", func(r chi.Router) { acmeapi.Route(r) })
	serve := acme.NewContext(authority.NewContext(context.Background(), ca), orders, acme.NewClient(), acme.NewLinker(listener.Addr().String(), "acme"), nil)
	server := &http.Server{
		Handler:     routes,
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{*serving}},
		BaseContext: func(net.Listener) context.Context { return serve },
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	url := "https://" + listener.Addr().String()
	if err := announce(dir, access{url, url + "/acme/" + acmeName + "/directory", encode(keys.Root), provisionerName, token}); err != nil {
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
	return atomicfile.Write(filepath.Join(dir, "access.json"), text, 0o600)
}
