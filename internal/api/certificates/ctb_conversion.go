package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// Trust bundles have the same fields in all versions.

func bundleFromV1beta1(in *certificatesv1beta1.ClusterTrustBundle, out *certificatesv1.ClusterTrustBundle) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1.ClusterTrustBundleSpec(in.Spec)
}

func bundleToV1beta1(in *certificatesv1.ClusterTrustBundle, out *certificatesv1beta1.ClusterTrustBundle) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1beta1.ClusterTrustBundleSpec(in.Spec)
}

func bundleListFromV1beta1(in *certificatesv1beta1.ClusterTrustBundleList, out *certificatesv1.ClusterTrustBundleList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, bundleFromV1beta1)
}

func bundleListToV1beta1(in *certificatesv1.ClusterTrustBundleList, out *certificatesv1beta1.ClusterTrustBundleList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, bundleToV1beta1)
}

func bundleFromV1alpha1(in *certificatesv1alpha1.ClusterTrustBundle, out *certificatesv1.ClusterTrustBundle) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1.ClusterTrustBundleSpec(in.Spec)
}

func bundleToV1alpha1(in *certificatesv1.ClusterTrustBundle, out *certificatesv1alpha1.ClusterTrustBundle) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1alpha1.ClusterTrustBundleSpec(in.Spec)
}

func bundleListFromV1alpha1(in *certificatesv1alpha1.ClusterTrustBundleList, out *certificatesv1.ClusterTrustBundleList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, bundleFromV1alpha1)
}

func bundleListToV1alpha1(in *certificatesv1.ClusterTrustBundleList, out *certificatesv1alpha1.ClusterTrustBundleList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, bundleToV1alpha1)
}
