// Package incluster solves HTTP-01 challenges with a pod and a Service for each,
// to which an Ingress or an HTTPRoute leads.
package incluster

import (
	"context"
	"errors"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/acme/solver"
)

// Config configures a Solver.
type Config struct {
	// Client reads and writes pods, Services, Ingresses and HTTPRoutes. It must not
	// read from a cache: a late one would have objects made twice. Its scheme has
	// what AddToScheme adds.
	Client client.Client
	// Settings are valid.
	Settings Settings
	// SelfCheck reports whether the answer is found at the public address.
	SelfCheck func(context.Context, solver.Task) (solver.Found, error)
}

// AddToScheme adds the kinds that are not of Kubernetes itself.
func AddToScheme(scheme *runtime.Scheme) error { return gatewayv1.Install(scheme) }

// Solver solves HTTP-01 challenges in a cluster. All objects that it makes are
// in the namespace of the challenge, which owns them.
type Solver struct {
	client   client.Client
	settings Settings
	check    func(context.Context, solver.Task) (solver.Found, error)
}

var _ solver.Solver = &Solver{}

// New returns a Solver.
func New(cfg Config) *Solver {
	return &Solver{client: cfg.Client, settings: cfg.Settings, check: cfg.SelfCheck}
}

// Prepare implements solver.Solver. Objects are found by their labels and their
// owner, so nothing has to be noted.
func (s *Solver) Prepare(context.Context, solver.Task) (where string, err error) { return "", nil }

// Present implements solver.Solver.
func (s *Solver) Present(ctx context.Context, task solver.Task) error {
	_, err := s.present(ctx, task.Challenge)
	return err
}

// Check implements solver.Solver. It first creates again what was removed.
func (s *Solver) Check(ctx context.Context, task solver.Task) (solver.Found, error) {
	pod, err := s.present(ctx, task.Challenge)
	if err != nil {
		return solver.Found{}, err
	}
	found, err := s.check(ctx, task)
	if trouble := podTrouble(pod); err != nil && trouble != "" {
		return found, fmt.Errorf("%w (the solver's pod %s is not ready: %s)", err, pod.Name, trouble)
	}
	return found, err
}

// present makes what is missing, and returns the pod.
func (s *Solver) present(ctx context.Context, ch *acmev1.Challenge) (*corev1.Pod, error) {
	if err := s.presentable(ch); err != nil {
		return nil, err
	}
	pod, podErr := s.ensurePod(ctx, ch)
	service, err := s.ensureService(ctx, ch)
	if err != nil {
		return nil, errors.Join(podErr, err)
	}
	if ch.Spec.Solver.HTTP01.Ingress != nil {
		err = s.ensureIngress(ctx, ch, service)
	} else {
		err = s.ensureRoute(ctx, ch, service)
	}
	return pod, errors.Join(podErr, err)
}

// presentable returns an error for a challenge that cannot be presented with
// its solver, before anything is made for it.
func (s *Solver) presentable(ch *acmev1.Challenge) error {
	http01 := ch.Spec.Solver.HTTP01
	switch {
	case http01 == nil:
		return errors.New("challenge's 'solver' field is specified but no HTTP01 ingress config provided. Ensure solvers[].http01.ingress is specified on your issuer resource")
	case http01.Ingress == nil && http01.GatewayHTTPRoute == nil:
		return notPresented(ch, "no Ingress nor Gateway HTTP01 solvers were specified")
	case http01.Ingress == nil && !s.settings.EnableGatewayAPI:
		return notPresented(ch, "gateway api is not enabled")
	case s.settings.SolverImage == "":
		return notPresented(ch, path+".solverImage is not set in the configuration of the controllers: it names the container image of certplane")
	case http01.Ingress != nil && http01.Ingress.Name != "" && isIP(ch.Spec.DNSName):
		return notPresented(ch, fmt.Sprintf("the host of an Ingress cannot be an IP address, so the Ingress %q cannot lead to the answer for %s: use an issuer whose solver does not name an Ingress", http01.Ingress.Name, ch.Spec.DNSName))
	}
	return nil
}

func notPresented(ch *acmev1.Challenge, why string) error {
	return fmt.Errorf("couldn't Present challenge %s/%s: %s", ch.Namespace, ch.Name, why)
}

// CleanUp implements solver.Solver. It needs neither the issuer nor the image.
func (s *Solver) CleanUp(ctx context.Context, task solver.Task) error {
	ch := task.Challenge
	return errors.Join(
		s.withdraw(ctx, ch),
		s.deleteOwned(ctx, ch, podKind),
		s.deleteOwned(ctx, ch, serviceKind),
	)
}

// withdraw removes what leads to the Service.
func (s *Solver) withdraw(ctx context.Context, ch *acmev1.Challenge) error {
	http01 := ch.Spec.Solver.HTTP01
	switch {
	case http01 == nil:
		return nil
	case http01.Ingress != nil && http01.Ingress.Name != "":
		return s.restoreNamed(ctx, ch)
	case http01.Ingress != nil:
		return s.deleteOwned(ctx, ch, ingressKind)
	case http01.GatewayHTTPRoute != nil:
		err := s.deleteOwned(ctx, ch, routeKind)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil // without the Gateway API there are no HTTPRoutes
		}
		return err
	}
	return nil
}
