package incluster

import (
	"context"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ensureService returns the name of the Service of a challenge.
func (s *Solver) ensureService(ctx context.Context, ch *acmev1.Challenge) (string, error) {
	service, err := s.ensureOne(ctx, ch, serviceKind, wantedService(ch))
	if err != nil {
		return "", err
	}
	return service.GetName(), nil
}

// wantedService returns the Service of a challenge.
func wantedService(ch *acmev1.Challenge) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: ownedBy(ch),
		Spec: corev1.ServiceSpec{
			Type:     serviceType(ch),
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromInt32(port)}},
			Selector: identity(ch),
		},
	}
	service.Annotations = map[string]string{"auth.istio.io/8089": "NONE"}
	return service
}

func serviceType(ch *acmev1.Challenge) corev1.ServiceType {
	chosen := corev1.ServiceType("")
	switch http01 := ch.Spec.Solver.HTTP01; {
	case http01.Ingress != nil:
		chosen = http01.Ingress.ServiceType
	case http01.GatewayHTTPRoute != nil:
		chosen = http01.GatewayHTTPRoute.ServiceType
	}
	if chosen == "" {
		return corev1.ServiceTypeNodePort
	}
	return chosen
}
