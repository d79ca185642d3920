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
	// algorithm is that of their keys, which the server generates.
	algorithm cmv1.PrivateKeyAlgorithm
	// peers says that others than this certplane are measured, too.
	peers bool
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

// certificateSystem is what issues Certificates.
type certificateSystem struct {
	name  string
	start func(context.Context, options) (*system, error)
	// peer says that it is measured only in rounds with peers.
	peer bool
}

// certificateSystems returns what can be measured.
func certificateSystems(opts options) []certificateSystem {
	systems := []certificateSystem{{name: "certplane", start: startCertplane}}
	if missing := missingPeers(opts.assets, certManagerPeer); missing != "" {
		log.Printf("cert-manager is not measured: %s", missing)
	} else {
		systems = append(systems, certificateSystem{"cert-manager", startCertManager, true})
	}
	if opts.before != "" {
		systems = append(systems, certificateSystem{"before", func(ctx context.Context, opts options) (*system, error) {
			opts.certplane = opts.before
			return startCertplane(ctx, opts)
		}, true})
	}
	return systems
}

// measureCertificates loads servers of their own with Certificates of a CA
// issuer.
func measureCertificates(ctx context.Context, opts options, to *results) error {
	for _, s := range certificateSystems(opts) {
		results, err := s.measure(ctx, opts)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		to.Certificates = append(to.Certificates, results...)
	}
	return nil
}

func (c certificateSystem) measure(ctx context.Context, opts options) (results []loadResult, err error) {
	s, err := c.start(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	book, err := openBook(ctx, s.admin)
	if err != nil {
		return nil, fmt.Errorf("preparing the issuer: %w", err)
	}
	for i, r := range opts.certificateRounds {
		if c.peer && !r.peers {
			continue
		}
		if err := sleep(ctx, opts.settle); err != nil {
			return nil, err
		}
		profiled := func() {}
		if i == 0 && !c.peer && opts.profiles("certificates") {
			profiled = startProfile(ctx, s.admin, opts.profile)
		}
		result, err := measureCertificateRound(ctx, s, book, r)
		if err != nil {
			return nil, fmt.Errorf("round %s: %w", r.name, err)
		}
		profiled()
		result.System = c.name
		results = append(results, result)
	}
	return results, nil
}

func measureCertificateRound(ctx context.Context, s *system, book *book, r certificateRound) (loadResult, error) {
	answers, err := book.follow(ctx, r.name)
	if err != nil {
		return loadResult{}, err
	}
	defer answers.stop()
	log.Printf("round %s: %d Certificates", r.name, r.certificates)
	measuring, err := startMeasuring(s)
	if err != nil {
		return loadResult{}, err
	}
	failed := create(ctx, load{objects: r.certificates}, answers, func(ctx context.Context, name string, _ int) error {
		return book.client.Create(ctx, newCertificate(name, r.algorithm))
	})
	answers.await(ctx)
	result := answers.result(r.certificates, answers.elapsed())
	result.Errors = failed
	used, err := measuring.finish()
	result.add(used)
	return result, errors.Join(err, ctx.Err())
}

// openBook creates an issuer with a CA of its own, and returns when it is
// ready.
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

// newCertificate returns what a user writes for a server's certificate.
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

// seeCertificate records that a Certificate is ready and by which issuance; it
// must be the first. cert-manager may say later which one it was.
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
