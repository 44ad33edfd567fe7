// The state of a bandit in a word or two: who decides, or what is wrong.

import * as f from "./format.js";

/** { text, kind, order } of what a list or an overview says of a bandit; `order` puts what needs a look first. */
export function stateOf(one) {
  if (one.quarantined) return { text: "quarantined", kind: "bad", order: 0 };
  if (one.paused) return { text: "paused", kind: "warn", order: 1 };
  if (one.apprentice && !one.rollout) return { text: "apprentice", kind: "calm", order: 2 };
  if (one.apprentice && one.rollout < 1) return { text: `gradual start: ${f.share(one.rollout, one.rollout < 0.01 ? 1 : 0)}`, kind: "calm", order: 3 };
  return { text: "deciding", kind: "good", order: 4 };
}

/** How many rewards there are of those that it takes, if they are too few; else null. */
export function tooFew(overview) {
  if (overview.needed === null || overview.learned >= overview.needed) return null;
  return `${f.count(overview.learned)} of about ${f.about(overview.needed)} rewards`;
}
