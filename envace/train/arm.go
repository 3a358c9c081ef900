package train

import (
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
)

// Arm is one way to train: EnvACE, an ablation of it, or a baseline.
type Arm string

// The arms.
const (
	ArmBase        Arm = "base"               // the warm start, untrained
	ArmSandbox     Arm = "grpo-sandbox"       // GRPO of ACT in the real environment
	ArmSimulator   Arm = "grpo-simulator"     // GRPO of ACT in another model's answers
	ArmRecorded    Arm = "grpo-recorded"      // GRPO of ACT on recorded answers, without rehearsal
	ArmEnvACE      Arm = "envace"             // both roles, one parameter set
	ArmPerRole     Arm = "per-role"           // both roles, a parameter set each
	ArmCalibrated  Arm = "envace+calibration" // EnvACE, and fidelity is paid
	ArmFrozenRole  Arm = "frozen-rehearse"    // EnvACE whose REHEARSE role carries no loss
	ArmFrozenActor Arm = "frozen-act"         // EnvACE whose ACT role carries no loss
)

// Arms lists every arm.
func Arms() []Arm {
	return []Arm{ArmBase, ArmSandbox, ArmSimulator, ArmRecorded, ArmEnvACE, ArmPerRole, ArmCalibrated, ArmFrozenRole, ArmFrozenActor}
}

// ParseArm finds an arm by its name.
func ParseArm(name string) (Arm, error) {
	if slices.Contains(Arms(), Arm(name)) {
		return Arm(name), nil
	}
	names := make([]string, len(Arms()))
	for i, arm := range Arms() {
		names[i] = string(arm)
	}
	return "", &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("unknown arm %q", name), Hint: "the arms are " + strings.Join(names, ", ")}
}

// Rehearses says whether the policy answers its own calls.
func (a Arm) Rehearses() bool {
	return a == ArmEnvACE || a == ArmPerRole || a == ArmCalibrated || a == ArmFrozenRole || a == ArmFrozenActor
}

// trains says whether outputs of a role carry loss.
func (a Arm) trains(role audit.PolicyRole) bool {
	frozen := map[Arm]audit.PolicyRole{ArmFrozenRole: audit.RehearseRole, ArmFrozenActor: audit.ActRole}
	return a != ArmBase && frozen[a] != role
}

// sets are the parameter sets of the arm, by the roles that use them.
func (a Arm) sets() []audit.PolicyRole {
	if a == ArmPerRole {
		return []audit.PolicyRole{audit.ActRole, audit.RehearseRole}
	}
	return []audit.PolicyRole{audit.WholePolicy}
}
