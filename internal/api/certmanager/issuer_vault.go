package certmanager

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// omitted is shown in errors in place of a value.
const omitted = "<snip>"

func validateVault(vault *cmv1.VaultIssuer, path *field.Path) field.ErrorList {
	errs := requiredFor(vault.Server, path.Child("server"), "")
	errs = append(errs, requiredFor(vault.Path, path.Child("path"), "")...)
	errs = append(errs, validatePath(vault.Path, path.Child("path"))...)
	errs = append(errs, validateBundle(vault.CABundle, path.Child("caBundle"), omitted)...)
	if len(vault.CABundle) > 0 && vault.CABundleSecretRef != nil {
		errs = append(errs,
			field.Invalid(path.Child("caBundle"), omitted, "specified caBundle and caBundleSecretRef cannot be used together"),
			field.Invalid(path.Child("caBundleSecretRef"), vault.CABundleSecretRef.Name, "specified caBundleSecretRef and caBundle cannot be used together"))
	}
	if vault.ClientCertSecretRef != nil && vault.ClientKeySecretRef == nil {
		errs = append(errs, field.Invalid(path.Child("clientKeySecretRef"), omitted, "clientKeySecretRef must be provided when defining the clientCertSecretRef"))
	}
	if vault.ClientKeySecretRef != nil && vault.ClientCertSecretRef == nil {
		errs = append(errs, field.Invalid(path.Child("clientCertSecretRef"), omitted, "clientCertSecretRef must be provided when defining the clientKeySecretRef"))
	}
	return append(errs, validateVaultAuth(&vault.Auth, path.Child("auth"))...)
}

// validateVaultAuth accepts several ways to log in: the issuer decides which
// one is used.
func validateVaultAuth(auth *cmv1.VaultAuth, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if auth.TokenSecretRef == nil && auth.AppRole == nil && auth.ClientCertificate == nil && auth.Kubernetes == nil && auth.AWS == nil {
		errs = append(errs, field.Required(path, "please supply one of: appRole, kubernetes, tokenSecretRef, clientCertificate, aws"))
	}
	if role := auth.AppRole; role != nil {
		at := path.Child("appRole")
		errs = append(errs, requiredFor(role.RoleId, at.Child("roleId"), "")...)
		errs = append(errs, requiredFor(role.SecretRef.Name, at.Child("secretRef", "name"), "")...)
		errs = append(errs, validatePath(role.Path, at.Child("path"))...)
	}
	if certificate := auth.ClientCertificate; certificate != nil {
		errs = append(errs, validatePath(certificate.Path, path.Child("clientCertificate", "path"))...)
	}
	if auth.Kubernetes != nil {
		errs = append(errs, validateVaultKubernetes(auth.Kubernetes, path.Child("kubernetes"))...)
	}
	if auth.AWS != nil {
		errs = append(errs, validateVaultAWS(auth.AWS, path.Child("aws"))...)
	}
	return errs
}

func validateVaultKubernetes(auth *cmv1.VaultKubernetesAuth, path *field.Path) field.ErrorList {
	errs := requiredFor(auth.Role, path.Child("role"), "")
	errs = append(errs, validatePath(auth.Path, path.Child("path"))...)
	var one choiceOfOne
	if auth.SecretRef.Name != "" {
		one.add("secretRef")
	}
	if auth.ServiceAccountRef != nil {
		one.add("serviceAccountRef")
		errs = append(errs, requiredFor(auth.ServiceAccountRef.Name, path.Child("serviceAccountRef", "name"), "")...)
	}
	return append(errs, one.validateWhole(path, "please supply one of: secretRef, serviceAccountRef")...)
}

func validateVaultAWS(auth *cmv1.VaultAWSAuth, path *field.Path) field.ErrorList {
	errs := requiredFor(auth.Role, path.Child("role"), "")
	errs = append(errs, validatePath(auth.MountPath, path.Child("mountPath"))...)
	if auth.ServiceAccountRef != nil {
		errs = append(errs, requiredFor(auth.ServiceAccountRef.Name, path.Child("serviceAccountRef", "name"), "")...)
		errs = append(errs, requiredFor(auth.IAMRoleARN, path.Child("iamRoleArn"), "iamRoleArn is required when using serviceAccountRef for IRSA")...)
	}
	return errs
}

func validateVenafi(venafi *cmv1.VenafiIssuer, path *field.Path) field.ErrorList {
	errs := requiredFor(venafi.Zone, path.Child("zone"), "")
	var one choiceOfOne
	if tpp := venafi.TPP; tpp != nil {
		one.add("tpp")
		at := path.Child("tpp")
		errs = append(errs, requiredFor(tpp.URL, at.Child("url"), "")...)
		if len(tpp.CABundle) > 0 && tpp.CABundleSecretRef != nil {
			errs = append(errs, field.Forbidden(at, "may not specify more than one of caBundle/caBundleSecretRef as TPP CA Bundle"))
		}
	}
	if venafi.Cloud != nil {
		one.add("cloud")
	}
	if ngts := venafi.NGTS; ngts != nil {
		one.add("ngts")
		errs = append(errs, requiredFor(ngts.TSGID, path.Child("ngts", "tsgID"), "")...)
		errs = append(errs, requiredFor(ngts.CredentialsRef.Name, path.Child("ngts", "credentialsRef", "name"), "")...)
	}
	return append(errs, one.validateWhole(path, "please supply one of: tpp, cloud, ngts")...)
}
