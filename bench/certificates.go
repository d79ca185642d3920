package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// certificateRound is one load of Certificates of cert-manager.io, all created
// at once.
type certificateRound struct {
	name         string
	certificates int
	// algorithm is the algorithm of the keys, which the server generates.
	algorithm cmv1.PrivateKeyAlgorithm
}

const (
	bookNamespace = "default"
	bookIssuer    = "bench-ca"
)

// book creates Certificates. It is safe for concurrent use.
type book struct {
	config *rest.Config
	client client.Client
}

// measureCertificates loads a separate certplane with Certificates of a CA issuer.
func measureCertificates(ctx context.Context, opts options, to *results) error {
	return measureCertificateSystem(ctx, opts, to, startCertplane, opts.certificateRounds)
}

// measureCertManager loads cert-manager's controllers in the same way, without RSA keys.
func measureCertManager(ctx context.Context, opts options, to *results) error {
	if missing := missingPeers(opts.assets, certManagerPeer); missing != "" {
		log.Printf("cert-manager is not measured: %s", missing)
		return nil
	}
	return measureCertificateSystem(ctx, opts, to, startCertManager, opts.certificateRounds[:1])
}

func measureCertificateSystem(ctx context.Context, opts options, to *results,
	start func(context.Context, options) (*system, error), rounds []certificateRound,
) (err error) {
	s, err := start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	book, err := openBook(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("preparing the issuer: %w", err)
	}
	for i, r := range rounds {
		if r.certificates == 0 {
			continue
		}
		if err := sleep(ctx, opts.settle); err != nil {
			return err
		}
		finish := opts.startProfile(ctx, s, "certificates", i)
		result, err := measureCertificateRound(ctx, s, book, r)
		if err != nil {
			return fmt.Errorf("round %s: %w", r.name, err)
		}
		finish()
		result.System = s.name
		to.Certificates = append(to.Certificates, result)
	}
	return nil
}

func measureCertificateRound(ctx context.Context, s *system, book *book, r certificateRound) (result loadResult, err error) {
	answers, err := book.follow(ctx, r.name)
	if err != nil {
		return loadResult{}, err
	}
	defer answers.stop()
	log.Printf("round %s: %d Certificates", r.name, r.certificates)
	used, err := s.measure(ctx, func() {
		result = answers.load(ctx, load{objects: r.certificates}, func(ctx context.Context, name string, _ int) error {
			return book.client.Create(ctx, newCertificate(name, r.algorithm))
		})
	})
	result.cost = used.each(result.Issued)
	return result, err
}

// openBook creates an issuer with its own CA, and returns when it is ready.
func openBook(ctx context.Context, admin *rest.Config) (*book, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), certmanager.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	cfg := rest.CopyConfig(admin)
	cfg.QPS = -1 // no limit
	connected, err := client.New(cfg, client.Options{Scheme: kinds})
	if err != nil {
		return nil, err
	}
	b := &book{config: cfg, client: connected}
	return b, b.addIssuer(ctx)
}

func (b *book) addIssuer(ctx context.Context) error {
	own := &cmv1.Issuer{ObjectMeta: named("bench-self-signed")}
	own.Spec.SelfSigned = &cmv1.SelfSignedIssuer{}
	root := newCertificate("bench-root", cmv1.ECDSAKeyAlgorithm)
	root.Spec.IsCA, root.Spec.IssuerRef.Name = true, own.Name
	ca := &cmv1.Issuer{ObjectMeta: named(bookIssuer)}
	ca.Spec.CA = &cmv1.CAIssuer{SecretName: root.Spec.SecretName}
	for _, object := range []client.Object{own, root, ca} {
		if err := b.client.Create(ctx, object); err != nil {
			return err
		}
	}
	for !isReady(ca) {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the issuer: %w", err)
		}
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(ca), ca); err != nil {
			return err
		}
	}
	return nil
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: bookNamespace, Name: name}
}

func isReady(issuer *cmv1.Issuer) bool {
	for _, condition := range issuer.Status.Conditions {
		if condition.Type == cmv1.IssuerConditionReady {
			return condition.Status == cmmeta.ConditionTrue
		}
	}
	return false
}

// newCertificate returns a Certificate as a user writes it for a server.
func newCertificate(name string, algorithm cmv1.PrivateKeyAlgorithm) *cmv1.Certificate {
	return &cmv1.Certificate{
		ObjectMeta: named(name),
		Spec: cmv1.CertificateSpec{
			SecretName: name, CommonName: name, DNSNames: []string{name + ".example.com"},
			PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: algorithm},
			IssuerRef:  cmmeta.IssuerReference{Name: bookIssuer},
		},
	}
}

// follow starts the watch and returns once it is open.
func (b *book) follow(ctx context.Context, round string) (*answers, error) {
	ctx, cancel := context.WithCancel(ctx)
	a := newAnswers(round, cancel)
	if err := b.watch(ctx, a); err != nil {
		cancel()
		return nil, fmt.Errorf("watching Certificates: %w", err)
	}
	return a, nil
}

func (b *book) watch(ctx context.Context, a *answers) error {
	watched, err := ctrlcache.New(b.config, ctrlcache.Options{Scheme: b.client.Scheme(), Mapper: b.client.RESTMapper()})
	if err != nil {
		return err
	}
	informer, err := watched.GetInformer(ctx, &cmv1.Certificate{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.seeCertificate,
		UpdateFunc: func(_, object any) { a.seeCertificate(object) },
	})
	if err != nil {
		return err
	}
	go watched.Start(ctx)
	if !watched.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	return nil
}

// seeCertificate records that a Certificate is ready, and the issuance, which must be the
// first. cert-manager may set the number of the issuance later.
func (a *answers) seeCertificate(object any) {
	crt, ok := object.(*cmv1.Certificate)
	if !ok || !certmanager.CertificateIs(crt, cmv1.CertificateConditionReady) {
		return
	}
	issuance := ""
	if revision := crt.Status.Revision; revision != nil {
		issuance = strconv.Itoa(*revision)
	}
	a.note(crt.Name, issuance)
}
