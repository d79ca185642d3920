package incluster

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// kind is a kind of objects that a challenge has one of.
type kind struct {
	list func() client.ObjectList
	// name and plural are for messages.
	name, plural string
	// several is the error when a challenge had more than one.
	several string
}

var (
	podKind = kind{
		list: func() client.ObjectList { return &corev1.PodList{} },
		name: "Pod", plural: "Pods",
		several: "multiple existing challenge solver pods found and cleaned up. retrying challenge sync",
	}
	serviceKind = kind{
		list: func() client.ObjectList { return &corev1.ServiceList{} },
		name: "Service", plural: "Services",
		several: "multiple existing challenge solver services found and cleaned up. retrying challenge sync",
	}
	ingressKind = kind{
		list: func() client.ObjectList { return &networkingv1.IngressList{} },
		name: "Ingress", plural: "Ingresses",
		several: "multiple existing challenge solver ingresses found and cleaned up. retrying challenge sync",
	}
	routeKind = kind{
		list: func() client.ObjectList { return &gatewayv1.HTTPRouteList{} },
		name: "HTTPRoute", plural: "HTTPRoutes",
		several: "multiple HTTPRoutes found",
	}
)
