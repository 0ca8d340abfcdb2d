// What they must refuse: no such policy.
import { Stile } from "../stile.js";

new Stile().agent("plain").stream("hello", { policy: "wait" });
